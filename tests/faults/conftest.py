import sys


def pytest_terminal_summary(terminalreporter):
    """What the model went through. (Nothing in a process that only coordinates others.)"""
    machine = sys.modules.get("tests.faults.state_machine")
    for name, number in sorted(machine.FIGURES.items()) if machine else ():
        terminalreporter.write_line(f"{number:8,} {name}")
