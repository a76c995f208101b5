"""Sphinx configuration: sphinx-build -W infra/docs SITE."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # okl_docs

project = "okl"
html_title = "okl"
smartquotes = False  # "--loss" is an option, not a dash
html_theme = "furo"
html_show_copyright = False
html_copy_source = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "okl_docs"]
exclude_patterns = ["examples"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings give shapes and units, which types do not
