"""Sphinx's settings for `make site`: see tools/site.py, which writes the pages' sources."""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.search.zh import SearchChinese

project = "From Averages to Transformers"
author = "the From Averages to Transformers authors"
extensions = ["myst_nb"]
html_theme = "furo"
html_title = project
html_static_path = ["static", "build/static"]
html_css_files = ["AttentionMap.css", "Explorer.css", "site.css"]
html_js_files = [
    (f"{name}.js", {"defer": "defer"}) for name in ("AttentionMap", "Explorer", "live")
]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_math_renderer = "mathml"
html_use_index = False
# Every text has a contrast of 7 with what is behind it.
html_theme_options = {
    "light_css_variables": {
        **dict.fromkeys(["color-brand-primary", "color-brand-content"], "#0a4f96"),
        **dict.fromkeys(["color-foreground-secondary", "color-foreground-muted"], "#50525a"),
    },
    "dark_css_variables": {
        **dict.fromkeys(["color-brand-primary", "color-brand-content"], "#8ab8f5"),
        **dict.fromkeys(["color-foreground-secondary", "color-foreground-muted"], "#aeb2b7"),
    },
}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"


def mathml(formula: str, display: str) -> str:
    """The formula as MathML, which browsers draw without a script."""
    # Rows of a matrix that begin with a bracket: [4pt] would be taken for a distance.
    return convert(re.sub(r"\s+", " ", formula).strip(), display=display)


def inline(writer, node):
    writer.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def block(writer, node):
    # It may be wider than a phone, so it can be scrolled, by keyboard too.
    formula = mathml(node.astext(), "block")
    writer.body.append(
        f'<section class="math" tabindex="0" role="group" aria-label="formula">{formula}</section>'
    )
    raise nodes.SkipNode


class SearchPairs(SearchChinese):
    """Chinese search without a dictionary: any two neighbouring characters are a word."""

    language_name = "English"  # of the stemmer's script, which has no class for Chinese
    js_splitter_code = """
function splitQuery(query) {
  const pairs = (word) => Array.from({ length: word.length - 1 }, (_, i) => word.slice(i, i + 2));
  const words = query.match(/[a-z0-9_]+|[\u4e00-\u9fff]{2,}/gi) ?? [];
  return words.flatMap((word) => (word.charCodeAt(0) < 0x4e00 ? [word] : pairs(word)));
}
"""

    def split(self, input):
        runs = re.findall("[\u4e00-\u9fff]{2,}", input)
        pairs = [run[i : i + 2] for run in runs for i in range(len(run) - 1)]
        return [*pairs, *filter(str.isascii, super().split(input))]


def setup(app):
    app.add_search_language(SearchPairs)
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
