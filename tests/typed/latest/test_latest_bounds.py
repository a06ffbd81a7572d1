"""Only files that may have a key of the wave are looked into."""

from headrace.pipeline.typed.latest_plan import KeyBounds, KeyFile, may_have_keys

FILES = (
    KeyFile("low", KeyBounds("a", "f")),
    KeyFile("high", KeyBounds("m", "z")),
    KeyFile("unknown"),
)


def names(*of_wave: KeyBounds | None) -> list[str]:
    return [file.path for file in may_have_keys(FILES, of_wave)]


def test_a_file_whose_bounds_meet_those_of_no_file_of_the_wave_is_left_alone():
    assert names(KeyBounds("f", "l")) == ["low", "unknown"]
    assert names(KeyBounds("g", "l")) == ["unknown"]
    assert names(KeyBounds("b", "c"), KeyBounds("z", "zz")) == ["low", "high", "unknown"]
    # A file around all keys of the wave, and one within them.
    assert names(KeyBounds("n", "o")) == ["high", "unknown"]
    assert names(KeyBounds("0", "~")) == ["low", "high", "unknown"]


def test_a_wave_of_which_the_bounds_arent_known_may_have_any_key():
    assert names(KeyBounds("g", "l"), None) == ["low", "high", "unknown"]
    # A wave without rows has no key.
    assert names() == []
