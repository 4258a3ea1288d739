"""Sphinx's settings for the documentation site (scripts/docs)."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
project = "Sluice"
author = "the authors of Sluice"
release = re.search(r"project\(Sluice VERSION ([\d.]+)",
                    (ROOT / "CMakeLists.txt").read_text())[1]
html_title = f"Sluice {release}"

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
root_doc = "index"
# A link may name a heading as GitHub does (`page.md#a-heading`).
myst_heading_anchors = 4
highlight_language = "none"

html_theme = "furo"
pygments_dark_style = "monokai"
html_static_path = ["style.css"]
html_css_files = ["style.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False
# Summaries of search results are fetched, which browsers refuse for files.
html_show_search_summary = False


def whole(app, failure):
    """Repairs what Debian 12's build of the theme lacks. Its script imports
    another one, which only modules may, and which no file may; its style sheet
    imports one from a web server's root, and has lost the rules that follow the
    system's choice of a dark scheme. Does nothing to a theme that is whole."""
    static = pathlib.Path(app.outdir) / "_static"
    if failure or app.builder.name != "html":
        return
    script = static / "scripts/furo.js"
    text = script.read_text()
    imported = 'import Gumshoe from "./gumshoe-patched.js";'
    if imported in text:
        other = (static / "scripts/gumshoe-patched.js").read_text()
        script.write_text(other + text.replace(imported, ""))
    sheet = static / "styles/furo.css"
    text = sheet.read_text()
    imported = "@import url(/javascript/normalize.css/normalize.css);"
    if imported in text:
        other = pathlib.Path("/usr/share/javascript/normalize.css/normalize.css")
        text = other.read_text() + text.replace(imported, "")
    dark = re.search(r'body\[data-theme="dark"\] (\{\s*--[^}]*\})', text)
    if dark and "prefers-color-scheme: dark" not in text:
        text += ("\n@media not print {@media (prefers-color-scheme: dark) {\n"
                 f'body:not([data-theme="light"]) {dark[1]}\n}}}}\n')
    sheet.write_text(text)


def setup(app):
    app.connect("build-finished", whole)
