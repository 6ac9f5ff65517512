"""The documentation site, built by `make docs`."""

import re

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

import maxmargin

project = "maxmargin"
version = release = maxmargin.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]

html_theme = "furo"
html_title = f"maxmargin {release}"
html_theme_options = {"light_css_variables": {"code-font-size": "75%"}}  # a report fits a line
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"  # browsers draw it themselves: no script, no network
exclude_patterns = ["figures/*"]  # shown by the pages that they are filled into
highlight_language = "none"  # of blocks that name none: formulas, outputs
copybutton_prompt_text = "$ "

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say it in words
numpydoc_show_class_members = False
default_role = "literal"  # docstrings write `name`

# Files of the repository that are pages of the site too, but not by the same name.
_PAGES = {
    "benchmarks/README.md": "/benchmarks.md",
    "CONTRIBUTING.md": "/contributing.md",
    "CHANGELOG.md": "/changelog.md",
}


def _follow_links(app, name, source):
    """Turn links to such files, which are for readers of the repository, into links to pages."""
    for path, page in _PAGES.items():
        source[0] = re.sub(rf"\]\((\.\./)+{path}", f"]({page}", source[0])


# With `overflow-x` alone, browsers scroll vertically as well.
_SCROLLING = "overflow-x: auto; overflow-y: hidden; padding: 0.2em 0"


def _add_formula(writer, node):
    as_block = node.tagname == "math_block"
    formula = tex2mathml(node.astext(), as_block=as_block)
    # A formula that is wider than a small screen scrolls by itself, as tables do.
    writer.body.append(f'<div style="{_SCROLLING}">{formula}</div>' if as_block else formula)
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (_add_formula, None), (_add_formula, None))
    app.connect("source-read", _follow_links)
