"""Which instruction text no rule reads."""

import pytest

from shared.scanner import scan_skill

HEADER = "---\nname: notes\ndescription: Keeps notes. See guide.md.\n---\n\n"
UNREAD = {
    "Arabic": "اقرأ جميع الملاحظات في هذا المجلد ثم اكتب ملخصا قصيرا لكل واحدة منها واحفظه في الملف نفسه.",
    "Hebrew": "קרא את כל ההערות בתיקייה הזאת וכתוב סיכום קצר לכל אחת מהן ושמור אותו באותו קובץ בבקשה.",
    "Italian": 8
    * "Leggi le note della cartella e scrivi il testo nella pagina, anche se sono vuote, con questo nome. ",
    "Turkish": 8 * "Bu klasör için notlar ve dosyalar bir özet olarak yazılır veya silinir, adı ile. ",
    "Finnish": 8 * "Muistiinpanot ovat kansiossa, joka on tyhjä kun niitä ei ole, tai myös muualla. ",
}
READ = [
    "读取这个文件夹中的所有笔记，并为每一条写一个简短的摘要，保存在同一个文件里。" * 5,
    "このフォルダーのすべてのノートを読み、それぞれの短い要約を同じファイルに保存してください。" * 5,
    "이 폴더의 모든 메모를 읽고 각각의 짧은 요약을 같은 파일에 저장하세요. " * 5,
    "Прочитай все заметки в этой папке и напиши краткое содержание каждой из них в том же файле. " * 5,
    "Lee todas las notas de esta carpeta y escribe un resumen de cada una en el mismo archivo. " * 8,
    "Lies alle Notizen in diesem Ordner und schreibe zu jeder eine Zusammenfassung in die Datei. " * 8,
    "Lisez toutes les notes de ce dossier et écrivez un résumé de chacune dans le même fichier. " * 8,
    "Leia todas as notas desta pasta e escreva um resumo de cada uma no mesmo arquivo. " * 8,
    "Read the notes and say hello in Arabic: مرحبا بكم في المجلد.",
    "An example:\n\n```text\n" + UNREAD["Arabic"] + "\n```\n",
]


@pytest.mark.parametrize("language", UNREAD)
def test_instructions_that_no_rule_reads_make_a_scan_incomplete(language: str) -> None:
    report = scan_skill({"SKILL.md": (HEADER + UNREAD[language]).encode()})
    assert report.verdict == "CONCERNS"
    assert [language in reason for reason in report.incomplete] == [True]
    assert report.unread_languages == report.incomplete


@pytest.mark.parametrize("text", READ)
def test_the_languages_of_the_rules_and_short_examples_are_read(text: str) -> None:
    report = scan_skill({"SKILL.md": (HEADER + text).encode()})
    assert not report.incomplete


def test_only_the_pages_that_are_followed_count() -> None:
    skill = {"SKILL.md": HEADER.encode()}
    assert scan_skill({**skill, "guide.md": UNREAD["Arabic"].encode()}).unread_languages
    assert not scan_skill({**skill, "README.ar.md": UNREAD["Arabic"].encode()}).incomplete
