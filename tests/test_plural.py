from whispertide.plural import counted


def test_one_of_something_is_singular() -> None:
    assert [counted(number, "recording") for number in (0, 1, 2)] == ["0 recordings", "1 recording", "2 recordings"]
