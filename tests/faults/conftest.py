from tests.faults.machine import FIGURES


def pytest_terminal_summary(terminalreporter):
    """What the model went through. (Empty in a process that only coordinates others.)"""
    for name, number in sorted(FIGURES.items()):
        terminalreporter.write_line(f"{number:8,} {name}")
