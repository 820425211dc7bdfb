"""A certificate of its own for a platform that serves https."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = timedelta(days=1)


def write_certificate(folder: Path) -> dict[str, str]:
    """As settings of the platform."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    start = datetime.now(UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), start, start + DAY)
    (folder / "cert.pem").write_bytes(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(text)
    return {"TLS_CERT": str(folder / "cert.pem"), "TLS_KEY": str(folder / "key.pem")}
