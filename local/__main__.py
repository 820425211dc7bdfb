"""python -m local: the whole platform on one machine, from template.yaml. `make run` calls it."""

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path

from local.config import StartError, local_directory, read_config

HELP = """\
environment:
  PORT              port (3000; 0 picks a free one)
  HOST              address to listen on (127.0.0.1); another one needs TLS or a proxy, and switches limits on
  TLS_CERT, TLS_KEY files of a certificate and its key, to serve https
  TRUSTED_PROXY     address of a proxy in front, whose X-Forwarded-For names the client
  LOCAL_DIR         data folder (.local)
  SAMPLES           1: the first start submits the skills in samples/; 0: it starts empty (1; 0 where HOST is another)
  ADMIN_TOKEN       admin token to use (otherwise one is generated and kept)
  EXTERNAL_SCANNERS external scanners of published skills, for example bandit (`make external-scanner`)
  TIME_SCALE        factor for timeouts, visibility timeouts and schedules (1)
  AWS_ENDPOINT_URL  AWS endpoint to use instead of the store of this machine
  LOG_LEVEL         DEBUG, INFO, WARNING or ERROR (INFO)
  LOG_FILE          file to log to instead of the terminal; renamed at 10 MB, five are kept
Every environment variable of the functions in template.yaml can be overridden too, for example MAX_ACTIVE=5.
"""


def main() -> int:
    options = _options()
    if sys.platform != "linux":
        print("vskill-platform runs on Linux: the Lambda runtime client has no build for this system.", file=sys.stderr)
        return 1
    os.umask(0o077)  # what strangers uploaded, and secrets, are for the user who runs it
    try:
        return COMMANDS[options.command or "run"](options)
    except StartError as error:
        print(error, file=sys.stderr)
        return 1


def _options() -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("local", description=__doc__, epilog=HELP, formatter_class=formatter)
    parser.add_argument("--template", type=Path, help="another template, in the folder of its code")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("run", help="start the platform (the default)")
    token = commands.add_parser("admin-token", help="print a new admin token; only its hash is stored")
    token.add_argument("name")
    token.add_argument("role")
    backup = commands.add_parser("backup", help="write all data into one file, also while the platform runs")
    backup.add_argument("file", type=Path)
    restore = commands.add_parser("restore", help="replace all data by that of a backup, also while the platform runs")
    restore.add_argument("file", type=Path)
    alarms = commands.add_parser("false-alarms", help="print the findings that reviewers overturned, as lines of JSON")
    alarms.add_argument("--url", help="of another platform, with a reviewer's token in ADMIN_TOKEN")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    config = read_config(dict(os.environ), options.template)
    # The AWS profile and proxies of the user must not apply to requests to 127.0.0.1.
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ.update(dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "local"))
    from local.runner import run  # imported late: it loads the HTTP server

    return asyncio.run(run(config))


def _admin_token(options: argparse.Namespace) -> int:
    from local.tokens import add_admin_token

    print(add_admin_token(local_directory(os.environ), options.name, options.role))
    print("A running platform accepts it within 5 minutes.", file=sys.stderr)
    return 0


def _false_alarms(options: argparse.Namespace) -> int:
    from local.false_alarms import false_alarms

    for alarm in false_alarms(local_directory(os.environ), options.url, os.environ.get("ADMIN_TOKEN")):
        print(json.dumps(alarm, ensure_ascii=False))
    return 0


def _backup(options: argparse.Namespace) -> int:
    from local.backup import write_backup

    size = write_backup(local_directory(os.environ), options.file)
    print(f"{options.file} has all data ({size / 1e6:.1f} MB), with its secrets: keep it where only you can read it.")
    return 0


def _restore(options: argparse.Namespace) -> int:
    from local.backup import restore_backup

    directory = local_directory(os.environ)
    restore_backup(directory, options.file)
    print(f"{directory} has the data of {options.file}. A running platform uses its secrets within 5 minutes.")
    return 0


COMMANDS = {
    "run": _run,
    "admin-token": _admin_token,
    "backup": _backup,
    "restore": _restore,
    "false-alarms": _false_alarms,
}

if __name__ == "__main__":
    sys.exit(main())
