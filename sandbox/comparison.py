"""What was asked beside what was found: each comparison is a line of the isolation record."""

from dataclasses import dataclass, field

from sandbox.contract import Fact, FactSource, WeakerThanAsked


@dataclass(slots=True)
class Comparison:
    """Collects facts; a difference does not stop the collecting, `facts` refuses at the end."""

    _facts: list[Fact] = field(default_factory=list)
    _differences: list[str] = field(default_factory=list)

    def exact(
        self, name: str, asked: object, found: object, source: FactSource = FactSource.OBSERVED, *, show: str = ""
    ) -> None:
        """`found` must equal `asked`. `show` replaces what the record says of both, where the values say little."""
        self._add(name, show or _shown(asked), _shown(found) if found != asked or not show else show, source)
        if found != asked:
            self._differences.append(f"{name}: asked {_shown(asked)}, found {_shown(found)}")

    def at_most(self, name: str, asked: int, found: int | None, source: FactSource = FactSource.OBSERVED) -> None:
        """`found` must be a number (None: unlimited) no greater than `asked`."""
        self._add(name, f"at most {asked}", _shown(found), source)
        if found is None or found > asked:
            self._differences.append(f"{name}: asked at most {asked}, found {_shown(found)}")

    def holds(self, name: str, asked: str, is_met: bool, found: str, source: FactSource = FactSource.OBSERVED) -> None:
        """A condition in words, such as `own namespace`."""
        self._add(name, asked, found, source)
        if not is_met:
            self._differences.append(f"{name}: asked {asked}, found {found}")

    def not_in_force(self, name: str, asked: object, why: str) -> None:
        """The host does not let us: shown, and no reason to refuse."""
        self._add(name, _shown(asked), why, FactSource.NOT_IN_FORCE)

    def facts(self) -> tuple[Fact, ...]:
        """All lines, in the order of comparing.

        Raises:
            WeakerThanAsked: any of them differed.
        """
        if self._differences:
            raise WeakerThanAsked("the sandbox is weaker than asked: " + "; ".join(self._differences))
        return tuple(self._facts)

    def _add(self, name: str, asked: str, found: str, source: FactSource) -> None:
        self._facts.append(Fact(name, asked, found, source))


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, frozenset | set | tuple | list):
        return ",".join(sorted(map(str, value))) or "none"
    return str(value)
