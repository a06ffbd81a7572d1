"""A table of 10,000 items on AWS's DynamoDB Local, under random updates, deletes and items whose time to live is over, lands over roll-overs.
The tasks work in this process; `test_latest_table` has real ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline.app.wiring import NoDagster, Wiring
from headrace.pipeline.errors import Unreachable
from tests.contract.dynamodb_local.__main__ import NotAtHand, fetch, served
from tests.e2e.test_table_stream import Shop
from tests.eventually import eventually
from tests.interop.ours import WithoutSpark

pytestmark = pytest.mark.slow


class ShopWithoutSpark(Shop):
    def land(self) -> None:
        eventually(
            self.no_item_has_expired,
            "DynamoDB has deleted the items whose time to live is over",
            within=600,
        )
        wiring = Wiring(self.settings, WithoutSpark(self.settings))

        def is_landed() -> bool:
            run = wiring.reading("run", NoDagster(), on_wave=lambda _: None, on_waiting=lambda _: None)
            ending = run.shards(self.tick())
            # DynamoDB Local fails for some seconds while it deletes many items.
            if isinstance(ending.error, Unreachable):
                return False
            assert (ending.error, ending.failed) == (None, {})
            return True

        for _ in range(3):
            eventually(is_landed, "a run has landed the changes")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "local")
    monkeypatch.chdir(tmp_path)
    try:
        fetch()
        with served() as endpoint:
            yield ShopWithoutSpark(endpoint, tmp_path, items=10_000)
    except NotAtHand as reason:
        pytest.skip(f"DynamoDB Local isn't at hand ({reason})")


def test_the_newest_images_of_ten_thousand_items_are_what_a_scan_finds_after_deletes_by_ttl(shop: Shop):
    shop.fill()
    for _ in range(2):
        shop.change(3_000)
        shop.land()
        assert shop.newest() == shop.scanned()
        shop.roll_over()
    assert len(shop.newest()) > 7_000
    assert shop.deletes_by_ttl() > 300
