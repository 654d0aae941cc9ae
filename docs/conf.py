"""How Sphinx builds these pages; `make docs` runs it."""

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # docs._ext

about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
project, release = "Peewit", about["version"]
project_copyright = "the authors of Peewit"

extensions = [
    "docs._ext.glossary_links",
    "docs._ext.offline",
    "docs._ext.reference",
    "myst_nb",  # with myst_parser, which it builds on
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
]
exclude_patterns = ["_ext"]
smartquotes = False  # `--model` in a help text stays two hyphens

default_role = "code"  # docstrings write `name` for code
nitpicky = True
nb_execution_mode = "off"  # notebooks hold what they printed; a test runs them
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings say them
autodoc_member_order = "bysource"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"Peewit {release}"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
