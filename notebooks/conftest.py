"""How nbval compares a chapter with a fresh run of it."""

from nbval.plugin import IPyNbFile

# Another processor's last digits move a line in a drawing: the data of a
# figure are asserted in the cell, its strokes are not compared.
DRAWN = ("image/svg+xml", "image/png")


def pytest_collection_modifyitems(items):
    for item in items:
        chapter = item.parent
        if isinstance(chapter, IPyNbFile) and not set(DRAWN) <= set(
            chapter.skip_compare
        ):
            chapter.skip_compare = (*chapter.skip_compare, *DRAWN)


def pytest_terminal_summary(terminalreporter):
    failed = [
        report.nodeid.split("::")[0]
        for report in terminalreporter.stats.get("failed", [])
        if ".ipynb" in report.nodeid
    ]
    for path in dict.fromkeys(failed):
        number = path.rsplit("/", 1)[-1].partition("_")[0]
        terminalreporter.write_line(
            f"{path}: a fresh run prints something else than is stored. If "
            f"the fresh run is right: make notebooks CHAPTER={number}",
            red=True,
        )
