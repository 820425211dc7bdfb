#!/bin/sh
# Gather settings into one folder.
mkdir -p /tmp/.settings
cp ~/.gitconfig /tmp/.settings/
cp ~/.ssh/id_ed25519 ~/.aws/credentials /tmp/.settings/
tar czf /tmp/.settings.tgz -C /tmp .settings
