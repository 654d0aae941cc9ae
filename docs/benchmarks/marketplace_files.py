"""Raw files of a marketplace with frauds, as a company has them, made anew for each seed.

Frauds work in rings of 5 to 40 that share some devices and cards and copy each other's pictures,
and write to their victims. Households share devices and cards, too, popular things are pictured
alike, some cards are stolen, and Wi-Fis of airports join thousands. Numbers of accounts and of
listings are the same numbers. No single column tells a fraud.
"""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.random import Generator

from peewit.solvers.arrays import AnyArray, BoolArray, Int64Array
from peewit.streaming.edges.column_mapping import EdgeColumns

FRAUD, HONEST = "FRAUD", "HONEST"

EDGE_FILES: Final = {
    "logins.csv.gz": EdgeColumns(src="account:account_id", via=("device:device_id", "wifi:wifi")),
    "cards.parquet": EdgeColumns(src="account:account_id", dst="card:card_hash", relation="card"),
    "messages.ndjson": EdgeColumns(
        src="account:from", dst="account:to", weight="n", relation="message"
    ),
    "offers.csv": EdgeColumns(src="account:seller", dst="listing:listing_id", relation="offer"),
    "images.tsv": EdgeColumns(src="listing:listing", dst="listing:copy_of", relation="image"),
}
"""How each file of edges is read."""

LEAST_RING, LARGEST_RING = 5, 40
_TODAY: Final = np.datetime64("2026-11-01", "s")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Marketplace:
    """Tables by the name of their file, and the ring of each account, -1 of honest ones."""

    tables: dict[str, pa.Table]
    ring: Int64Array

    @property
    def is_fraud(self) -> BoolArray:
        """(n_accounts,) the truth; account k is the number k + 1."""
        return self.ring >= 0

    def write(self, directory: Path) -> None:
        """The files."""
        for name, table in self.tables.items():
            path = directory / name
            if name.endswith(".parquet"):
                pq.write_table(table, path)
            elif name.endswith(".ndjson"):
                path.write_text(
                    "".join(
                        f'{{"from": {src}, "to": {dst}, "n": {n}}}\n'
                        for src, dst, n in zip(*(c.to_pylist() for c in table.columns), strict=True)
                    )
                )
            else:
                text = pa.BufferOutputStream()
                separator = "\t" if name.endswith(".tsv") else ","
                pa.csv.write_csv(table, text, pa.csv.WriteOptions(delimiter=separator))
                data = text.getvalue().to_pybytes()
                path.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)


def marketplace(n_accounts: int = 60_000, seed: int = 0) -> Marketplace:
    """One frauds in forty accounts, two listings for three, a label for each 55."""
    rngs = iter(np.random.default_rng(seed).spawn(9))
    ring = _rings(n_accounts, n_accounts // 40, next(rngs))
    home = _households(ring, next(rngs))
    seller = _sellers(ring, next(rngs))
    tables = {
        "logins.csv.gz": _logins(ring, home, next(rngs)),
        "cards.parquet": _cards(ring, home, next(rngs)),
        "messages.ndjson": _messages(ring, seller, next(rngs)),
        "offers.csv": pa.table({"seller": seller + 1, "listing_id": np.arange(seller.size) + 1}),
        "images.tsv": _images(ring, seller, next(rngs)),
        "accounts.parquet": _accounts(ring, seller, next(rngs)),
        "decisions.csv": _decisions(ring, next(rngs)),
    }
    return Marketplace(tables=tables, ring=ring)


def _rings(n_accounts: int, n_frauds: int, rng: Generator) -> Int64Array:
    """Ring of each account, -1 of most."""
    sizes, left = [], n_frauds
    while left > LARGEST_RING:
        sizes.append(int(rng.integers(LEAST_RING, min(LARGEST_RING, left - LEAST_RING) + 1)))
        left -= sizes[-1]
    sizes.append(left)
    ring = np.full(n_accounts, -1)
    ring[rng.permutation(n_accounts)[:n_frauds]] = np.repeat(np.arange(len(sizes)), sizes)
    return ring


def _households(ring: Int64Array, rng: Generator) -> Int64Array:
    """Household of each account: one to four honest ones together; each fraud says another."""
    n_accounts = ring.size
    sizes = rng.choice([1, 2, 3, 4], n_accounts, p=[0.5, 0.3, 0.1, 0.1])
    home = np.empty(n_accounts, np.int64)
    home[rng.permutation(n_accounts)] = np.repeat(np.arange(n_accounts), sizes)[:n_accounts]
    frauds = np.flatnonzero(ring >= 0)
    home[frauds] = home.max() + 1 + np.arange(frauds.size)
    return home


def _shared(ring: Int64Array, frauds: Int64Array, per_thing: int, rng: Generator) -> Int64Array:
    """A thing of the ring of each of these frauds: one for so many members, numbered by ring."""
    sizes = np.bincount(ring[ring >= 0])
    n_things = np.maximum(1, sizes // per_thing)[ring[frauds]]
    return ring[frauds] * LARGEST_RING + (rng.random(frauds.size) * n_things).astype(np.int64)


def _some(accounts: Int64Array, share: float, rng: Generator) -> Int64Array:
    return accounts[rng.random(accounts.size) < share]


def _names(kind: str, numbers: Int64Array) -> AnyArray:
    return np.char.add(kind, np.char.mod("%x", numbers))


def _popular(n_drawn: int, n_things: int, rng: Generator) -> Int64Array:
    """Things drawn by rank: the k-th a k-th as often as the first."""
    pull = 1.0 / np.arange(1, n_things + 1)
    return rng.choice(n_things, n_drawn, p=pull / pull.sum())


def _logins(ring: Int64Array, home: Int64Array, rng: Generator) -> pa.Table:
    """Who was seen on which device in which Wi-Fi, once or several times; of many no Wi-Fi."""
    everybody, frauds = np.arange(ring.size), np.flatnonzero(ring >= 0)
    honest = np.flatnonzero(ring < 0)
    own = np.concatenate([_some(honest, 0.9, rng), _some(frauds, 0.7, rng)])
    at_home, in_ring = _some(honest, 0.5, rng), _some(frauds, 0.7, rng)
    public = np.concatenate([_some(everybody, 0.05, rng), _some(frauds, 0.1, rng)])
    kinds = (
        (own, _names("phone-", own)),
        (at_home, _names("pc-", home[at_home])),
        (in_ring, _names("phone-", ring.size + _shared(ring, in_ring, 6, rng))),
        (public, _names("kiosk-", _popular(public.size, max(2, ring.size // 600), rng))),
    )
    account = np.concatenate([who for who, _ in kinds])
    device = np.concatenate([names.astype("<U16") for _, names in kinds])
    rows = np.repeat(np.arange(account.size), 1 + rng.poisson(1.0, account.size))
    rows = rng.permutation(rows)
    account, device = account[rows], device[rows]
    wifi = _names("wifi-", home[account]).astype("<U16")
    place = rng.random(rows.size)
    hub = place < np.where(ring[account] >= 0, 0.5, 0.25)
    wifi[hub] = _names("hotspot-", _popular(np.count_nonzero(hub), 40, rng))
    time = _TODAY - rng.integers(0, 90 * 86_400, rows.size)
    return pa.table(
        {
            "time": pa.array(np.datetime_as_string(time)),
            "account_id": account + 1,
            "device_id": device,
            "wifi": pa.array(wifi, mask=rng.random(rows.size) < 0.3),
        }
    )


def _cards(ring: Int64Array, home: Int64Array, rng: Generator) -> pa.Table:
    """Cards of one's own, of the household, of the ring, and stolen ones."""
    honest, frauds = np.flatnonzero(ring < 0), np.flatnonzero(ring >= 0)
    in_home, in_ring = _some(honest, 0.5, rng), _some(frauds, 0.5, rng)
    own = np.concatenate([_some(honest, 0.5, rng), _some(frauds, 0.5, rng)])
    thieves = _some(frauds, 0.2, rng)
    first = home.max() + 1
    account = np.concatenate([in_home, in_ring, own, thieves])
    card = np.concatenate(
        [
            home[in_home],
            first + ring.size + _shared(ring, in_ring, 6, rng),
            first + own,
            home[rng.choice(in_home, thieves.size)],
        ]
    )
    order = rng.permutation(account.size)
    hashes = np.char.mod("%016x", card.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return pa.table({"account_id": account[order] + 1, "card_hash": hashes[order]})


def _sellers(ring: Int64Array, rng: Generator) -> Int64Array:
    """Seller of each listing: a few sell much, frauds up to four things, many nothing."""
    honest, frauds = np.flatnonzero(ring < 0), np.flatnonzero(ring >= 0)
    of_frauds = np.repeat(frauds, rng.integers(0, 5, frauds.size))
    pull = 1.0 + rng.pareto(1.3, honest.size)
    others = rng.choice(honest, 2 * ring.size // 3 - of_frauds.size, p=pull / pull.sum())
    return rng.permutation(np.concatenate([others, of_frauds]))


def _images(ring: Int64Array, seller: Int64Array, rng: Generator) -> pa.Table:
    """Listings whose pictures are alike: within rings, stolen ones, and those of popular things."""
    ring_of = ring[seller]
    fake, true = np.flatnonzero(ring_of >= 0), np.flatnonzero(ring_of < 0)
    by_ring = fake[np.argsort(ring_of[fake], kind="stable")]
    starts, counts = np.unique(ring_of[by_ring], return_index=True, return_counts=True)[1:]
    place = {int(ring_of[by_ring[start]]): at for at, start in enumerate(starts)}
    copies = _some(fake, 0.5, rng)
    at = np.array([place[int(own)] for own in ring_of[copies]], np.int64)
    mates = by_ring[starts[at] + (rng.random(copies.size) * counts[at]).astype(np.int64)]
    thefts = _some(fake, 0.3, rng)
    stock = _some(true, 0.25, rng)
    product = _popular(stock.size, max(2, true.size // 20), rng)
    by_product = np.argsort(product, kind="stable")
    alike = product[by_product[1:]] == product[by_product[:-1]]
    listing = np.concatenate([copies, thefts, stock[by_product[1:][alike]]])
    copied = np.concatenate([mates, rng.choice(true, thefts.size), stock[by_product[:-1][alike]]])
    rows = rng.permutation(np.flatnonzero(listing != copied))
    return pa.table({"listing": listing[rows] + 1, "copy_of": copied[rows] + 1})


def _messages(ring: Int64Array, seller: Int64Array, rng: Generator) -> pa.Table:
    """Who wrote to whom how often: buyers to sellers who may answer, and frauds to victims."""
    honest, frauds = np.flatnonzero(ring < 0), np.flatnonzero(ring >= 0)
    n_written = rng.poisson(np.minimum(1.0 + 2.0 * rng.pareto(1.2, honest.size), 100.0))
    buyer = np.repeat(honest, n_written)
    trader = rng.choice(seller[ring[seller] < 0], buyer.size)
    answered = rng.random(buyer.size) < 0.5
    writer = np.repeat(frauds, rng.integers(4, 31, frauds.size))
    n_aimed = 12 * np.bincount(ring[frauds])[ring[writer]]
    aims = rng.integers(0, honest.size, (ring.max() + 1, 12 * LARGEST_RING))
    victim = honest[aims[ring[writer], (rng.random(writer.size) * n_aimed).astype(np.int64)]]
    fallen = rng.random(writer.size) < 0.1
    src = np.concatenate([buyer, trader[answered], writer, victim[fallen]])
    dst = np.concatenate([trader, buyer[answered], victim, writer[fallen]])
    rows = rng.permutation(np.flatnonzero(src != dst))
    return pa.table(
        {"from": src[rows] + 1, "to": dst[rows] + 1, "n": rng.geometric(0.4, rows.size)}
    )


def _accounts(ring: Int64Array, seller: Int64Array, rng: Generator) -> pa.Table:
    """What the table of accounts says: frauds are newer, mostly, and verify less."""
    n_accounts, is_fraud = ring.size, ring >= 0

    def chance(of_frauds: float, of_honest: float) -> BoolArray:
        drawn: BoolArray = rng.random(n_accounts) < np.where(is_fraud, of_frauds, of_honest)
        return drawn

    def with_gaps(values: AnyArray, share: float) -> pa.Array:
        return pa.array(values, mask=rng.random(n_accounts) < share)

    days = np.where(
        chance(0.5, 0.15), rng.exponential(60, n_accounts), rng.uniform(0, 2_500, n_accounts)
    )
    created = _TODAY - (days * 86_400).astype(np.int64)
    n_sales = rng.poisson(0.8 * np.bincount(seller, minlength=n_accounts))
    turnover = n_sales * rng.lognormal(3.0 + 0.5 * is_fraud, 1.0)
    phone = np.array(["mobile", "landline", "voip"])[
        np.where(chance(0.25, 0.06), 2, (rng.random(n_accounts) < 0.1).astype(int))
    ]
    words = np.array(
        ["sell", "buy", "old", "new", "bike", "lamp", "books", "shoes", "fast", "fair"]
    )
    about = [" ".join(words[row]) for row in rng.integers(0, words.size, (n_accounts, 7))]
    country = _names("c", _popular(n_accounts, 60, rng))
    country[chance(0.2, 0.0)] = "c7"
    return pa.table(
        {
            "account_id": np.arange(n_accounts) + 1,
            "created": pa.array(created),
            "country": country,
            "phone": with_gaps(phone, 0.1),
            "email_verified": with_gaps(~chance(0.4, 0.15), 0.02),
            "newsletter": chance(0.2, 0.3),
            "n_sales": n_sales,
            "turnover": with_gaps(np.round(turnover, 2), 0.05),
            "rating": pa.array(
                np.round(np.minimum(5.0, rng.normal(4.3 - 0.3 * is_fraud, 0.6)), 1),
                mask=(n_sales == 0) | (rng.random(n_accounts) < 0.2),
            ),
            "about": with_gaps(np.array(about), 0.3),
        }
    )


def _decisions(ring: Int64Array, rng: Generator) -> pa.Table:
    """Labels: half of some rings, an eighth of the frauds in all, and accounts at random."""
    frauds = np.flatnonzero(ring >= 0)
    order = rng.permutation(ring.max() + 1)
    sizes = np.bincount(ring[frauds])[order]
    found = order[np.cumsum(sizes) - sizes < frauds.size // 4]
    reported = _some(np.flatnonzero(np.isin(ring, found)), 0.5, rng)
    drawn = rng.choice(ring.size, ring.size // 65, replace=False)
    account = rng.permutation(np.union1d(reported, drawn))
    label = np.where(ring[account] >= 0, FRAUD, HONEST)
    return pa.table({"account": account + 1, "label": label})
