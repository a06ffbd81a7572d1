from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.source.generations import generations


@st.composite
def families(draw: st.DrawFn) -> dict[str, frozenset[str]]:
    """Shards, each with up to two of the shards before it as its parents."""
    names = [f"shard-{n}" for n in range(draw(st.integers(1, 12)))]
    order = draw(st.permutations(names))
    return {
        name: frozenset(draw(st.lists(st.sampled_from(order[:place]), max_size=2)) if place else [])
        for place, name in enumerate(order)
    }


@given(families())
def test_each_shard_comes_after_all_its_parents(parents: dict[str, frozenset[str]]):
    numbers = generations(parents, parents)
    assert numbers.keys() == parents.keys()
    for child, above in parents.items():
        assert all(numbers[parent] < numbers[child] for parent in above)
        assert bool(above) == bool(numbers[child])


def test_parents_that_contradict_each_other_or_arent_there_dont_stop_it():
    assert generations(["a", "b"], {"a": frozenset("b"), "b": frozenset("a")}).keys() == {"a", "b"}
    assert generations(["a"], {"a": frozenset({"gone"})}) == {"a": 0}
