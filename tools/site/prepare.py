"""Copies the repository's documents into a folder for mkdocs.

A link to a document becomes a link to its page, and a link to any other file becomes one to the repository. A link to a
file that does not exist is an error; mkdocs checks the fragments. The names of code blocks lose the words for tests:
"sh test" and "python file=server.py" are sh and python.
"""

import os
import pathlib
import re
import shutil
import sys

REPOSITORY = "https://github.com/capgate/capgate/blob/main/"
# Documents outside of docs/, and those with another place in the site.
PLACES = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "ARCHITECTURE.md": "inside/code.md",
    "CONTRIBUTING.md": "inside/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "report.md",
    "deploy/README.md": "run/deploy.md",
    "bench/README.md": "inside/figures.md",
}
LINK = re.compile(r"(\]\()([^)#\s]*)(#[^)\s]*)?\)")
FENCE = re.compile(r"^```(\w+) (?:test|drill|output|step|(?:file|step|serve|install)=\S+)$", re.M)
SPAN = re.compile(r"```.*?^```|`[^`\n]*`", re.S | re.M)
PICTURE = re.compile(r"<picture>.*?</picture>", re.S)
ATTRIBUTE = re.compile(r'(src|srcset)="docs/')


def place(file):
    """The page of a document, or None."""
    if file in PLACES:
        return PLACES[file]
    return file.removeprefix("docs/") if file.startswith("docs/") else None


def links(text, file, page):
    """text with its links as the site has them."""

    def one(match):
        target, fragment = match[2], match[3] or ""
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = os.path.normpath(os.path.join(os.path.dirname(file), target))
        if not os.path.exists(path):
            sys.exit(f"{file}: a link to {path}, which does not exist")
        to = place(path)
        if to is None or not os.path.isfile(path) or path.endswith(".go"):
            return f"]({REPOSITORY}{path}{fragment})"
        return f"]({os.path.relpath(to, os.path.dirname(page) or '.')}{fragment})"

    out, at = [], 0
    for span in SPAN.finditer(text):  # code stays as it is
        out += [LINK.sub(one, text[at:span.start()]), span[0]]
        at = span.end()
    return "".join(out) + LINK.sub(one, text[at:])


def picture(match):
    """A picture for each color scheme of the site, in place of one that follows the browser's."""
    text = ATTRIBUTE.sub(r'\1="', match[0])
    image = re.search(r"<img[^>]*>", text)[0]
    light = re.search(r'src="([^"]*)"', image)[1]
    out = []
    for name in ("light", "dark"):
        narrow = re.search(r'max-width: (\d+)px\)" srcset="([^"]*)-light\.svg"', text)
        source = f'<source media="(max-width: {narrow[1]}px)" srcset="{narrow[2]}-{name}.svg">' if narrow else ""
        out.append(f'<picture class="only-{name}">{source}{image.replace(light, light.replace("-light", "-" + name))}</picture>')
    return "<p>" + "".join(out) + "</p>"


def main(to):
    shutil.rmtree(to, ignore_errors=True)
    documents = list(PLACES) + [str(p) for p in pathlib.Path("docs").rglob("*.md") if str(p) not in PLACES]
    for file in documents:
        page = place(file)
        text = links(pathlib.Path(file).read_text(), file, page)
        text = PICTURE.sub(picture, FENCE.sub(r"```\1", text))
        out = pathlib.Path(to, page)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
    shutil.copytree("docs/images", pathlib.Path(to, "images"), ignore=shutil.ignore_patterns("*.go", "overview.svg"))
    shutil.copy("tools/site/extra.css", to)


main(sys.argv[1])
