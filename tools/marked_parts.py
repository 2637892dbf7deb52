"""Parts of a page that come from results, between `<!-- begin NAME -->` and `<!-- end NAME -->`."""

import re
from collections.abc import Mapping


def replaced(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with these parts replaced. Raises ValueError for a part without comments."""
    for name, text in parts.items():
        marks = re.compile(rf"(<!-- begin {name} -->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)
        found = marks.findall(page)
        if len(found) != 1:
            raise ValueError(f"the page needs one pair of marks for {name}")
        begin, before, end = found[0]
        page = page.replace(f"{begin}{before}{end}", f"{begin}{text}{end}")
    return page
