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
  PORT              port on 127.0.0.1 (3000; 0 picks a free one)
  LOCAL_DIR         data folder (.local)
  SAMPLES           0 starts empty; otherwise the first start submits the skills in samples/
  ADMIN_TOKEN       admin token to use (otherwise one is generated and kept)
  EXTERNAL_SCANNERS external scanners of published skills, for example bandit (`make external-scanner`)
  TIME_SCALE        factor for timeouts, visibility timeouts and schedules (1)
  AWS_ENDPOINT_URL  AWS endpoint to use instead of the embedded emulator
  LOG_LEVEL         DEBUG, INFO, WARNING or ERROR (INFO)
  SNAPSHOT_SECONDS  seconds between saves (60)
Every environment variable of the functions in template.yaml can be overridden too, for example MAX_ACTIVE=5.
"""


def main() -> int:
    options = _options()
    if sys.platform != "linux":
        print("vskill-platform runs on Linux: the Lambda runtime client has no build for this system.", file=sys.stderr)
        return 1
    try:
        return {"admin-token": _admin_token, "false-alarms": _false_alarms}.get(options.command, _run)(options)
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
    commands.add_parser("false-alarms", help="print the findings that reviewers overturned, as lines of JSON")
    return parser.parse_args()


def _run(options: argparse.Namespace) -> int:
    config = read_config(dict(os.environ), options.template)
    # The AWS profile and proxies of the user must not apply to requests to 127.0.0.1.
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        del os.environ[name]
    os.environ.update(AWS_CONFIG_FILE="/dev/null", AWS_SHARED_CREDENTIALS_FILE="/dev/null")
    from local.runner import run  # imported late: it loads the AWS client

    return asyncio.run(run(config))


def _admin_token(options: argparse.Namespace) -> int:
    from local.tokens import add_admin_token

    print(add_admin_token(local_directory(os.environ), options.name, options.role))
    print("A running platform accepts it within 5 minutes.", file=sys.stderr)
    return 0


def _false_alarms(options: argparse.Namespace) -> int:
    from local.false_alarms import false_alarms

    for alarm in false_alarms(local_directory(os.environ)):
        print(json.dumps(alarm, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
