"""python -m local: the whole platform on one machine, from template.yaml. `make run` calls it."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from local.config import StartError, local_directory, read_config

HELP = """\
environment:
  PORT              where the platform listens on 127.0.0.1 (3000; 0 takes any free port)
  LOCAL_DIR         where its data is kept (.local)
  SAMPLES           0 starts empty; else a first start submits the skills under samples/
  ADMIN_TOKEN       sets the admin token (else one is made and kept)
  EXTERNAL_SCANNERS names of scanners that look at what is published, like bandit (`make external-scanner`)
  TIME_SCALE        multiplies timeouts, visibility and schedules (1)
  AWS_ENDPOINT_URL  uses that AWS instead of the embedded one
  LOG_LEVEL         DEBUG, INFO, WARNING or ERROR (INFO)
  SNAPSHOT_SECONDS  how often the data is saved while running (60)
Any variable that template.yaml gives its functions can be set too, for example MAX_ACTIVE=5.
"""


def main() -> int:
    options = _options()
    if sys.platform != "linux":
        print("vskill-platform runs on Linux: the Lambda runtime client has no build for this system.", file=sys.stderr)
        return 1
    try:
        return _admin_token(options) if options.command == "admin-token" else _run(options)
    except StartError as error:
        print(error, file=sys.stderr)
        return 1


def _options() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("local", description=__doc__, epilog=HELP, formatter_class=formatter)
    parser.add_argument("--template", type=Path, help="another template; its folder holds the code")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("run", help="start the platform (the default)")
    token = commands.add_parser("admin-token", help="print a new token once; only its hash is kept")
    token.add_argument("name")
    token.add_argument("role")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    config = read_config(dict(os.environ), options.template)
    # The user's own AWS profile and proxies must not get between the runner and 127.0.0.1.
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ.update(AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    from local.runner import run  # only now: it loads the AWS client

    return asyncio.run(run(config))


def _admin_token(options: argparse.Namespace) -> int:
    from local.tokens import add_admin_token

    print(add_admin_token(local_directory(os.environ), options.name, options.role))
    print("Valid at the next start at the latest; running functions read it within 5 minutes.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
