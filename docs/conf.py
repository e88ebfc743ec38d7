"""The site: `make docs` builds it, with every warning an error."""

import importlib.util
import logging
import re
import runpy
import sys
import warnings

import privgram

runpy.run_path("claims.py", run_name="__main__")  # writes claims.md
privgram.load("flights.json").to_html(
    "flights.html", target="arr_delay", title="Flights from New York, 2013", file="flights.json"
)

project = "privgram"
author = "the privgram developers"
copyright = author
version = release = privgram.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "examples"]
nitpicky = True
# A glob takes pages that no list names, if there are any.
logging.getLogger("sphinx.sphinx.directives.other").addFilter(
    lambda record: not str(record.msg).startswith("toctree glob pattern")
)
suppress_warnings = ["ref.citation"]  # a module may list a reference that only its functions cite

# Pages: Markdown as GitHub shows it, formulas between dollars.
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

# API: one page an object, from its numpydoc docstring.
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
autodoc_typehints = "none"  # numpydoc says them with shapes and units
autodoc_member_order = "bysource"
default_role = "literal"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the class template lists them
numpydoc_xref_param_type = False

# Gallery: an example that fails, or warns, fails the build.
warnings.filterwarnings("error", module=r"privgram\..*")
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/\w+\.py$",
    "ignore_pattern": r"__init__\.py",
    "capture_repr": (),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 5,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "privgram"
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_context = {"default_mode": "auto"}

# The one file of MathJax that turns TeX into SVG, from a package: a page asks no other server.
_mathjax = importlib.util.find_spec("sphinx-mathjax-offline")
mathjax_path = "tex-svg.js"
html_static_path = [
    "_static",
    f"{_mathjax.submodule_search_locations[0]}/static/mathjax/tex-svg.js",
]
html_css_files = ["site.css"]
html_extra_path = ["flights.html", "flights.json"]

linkcheck_anchors = False

CITED = re.compile(r"\[(\d+)\]_")
REFERENCE = re.compile(r"^\.\. \[(\d+)\] .*(?:\n[ \t]+\S.*)*", re.MULTILINE)


def add_references(app, what, name, obj, options, lines):
    """Give a docstring the references it cites by their numbers in its module's docstring."""
    module = sys.modules.get(getattr(obj, "__module__", None) or "")
    text = "\n".join(lines)
    known = (
        {match[1]: match[0] for match in REFERENCE.finditer(module.__doc__ or "")} if module else {}
    )
    missing = set(CITED.findall(text)) - {match[1] for match in REFERENCE.finditer(text)}
    if missing & known.keys():
        if "References" not in lines:
            lines += ["", "References", "----------"]
        for number in sorted(missing & known.keys()):
            lines += ["", *known[number].splitlines()]
        lines.append("")


def setup(app):
    """Run before numpydoc makes the references' names unique."""
    app.connect("autodoc-process-docstring", add_references, priority=100)
