import tomllib
from pathlib import Path

with (Path(__file__).parent.parent / "pyproject.toml").open("rb") as file:
    metadata = tomllib.load(file)["project"]

project = "acp_mpi"
author = "acp_mpi developers"
copyright = f"2026, {author}"
version = release = metadata["version"]

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True

html_theme = "furo"
html_title = f"acp_mpi {version}"
