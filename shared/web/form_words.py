"""What a form says of an error whose text is about fields of the API: in the words that stand on the page."""

from shared.errors import RequestError

FORM_SENTENCES = {
    "uploads_off": "This platform accepts skills from GitHub only.",
    "invalid_skill_path": "Enter the folder with the SKILL.md inside the repository, for example skills/pdf.",
    "several_skills": "This repository has several skills. Choose from the list below.",
    "name_taken": "Another upload has this name, or one that looks like it. Choose another name, or enter the upload"
    " token that you got with its first submission.",
    "invalid_description": "Say in 1 to 2000 characters what is wrong.",
    "invalid_report_type": "Choose what kind of problem it is.",
    "invalid_content_hash": "A content hash has 64 of the characters 0-9 and a-f.",
    "scope_required": "Enter the full name or the repository of the skill, or tick “All sources”.",
    "own_token": "This is the token you are signed in with. Sign in with another one to revoke it.",
    "invalid_points": "Choose which of the author's points you agree with.",
    "invalid_severity": "Choose a severity.",
    "invalid_action": "This button is not known here. Reload the page and try again.",
    "invalid_body": "The form is incomplete. Check the fields and try again.",
}


def in_form_words(error: RequestError) -> str:
    return FORM_SENTENCES.get(error.code, str(error))
