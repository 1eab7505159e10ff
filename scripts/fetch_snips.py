"""Fetch the SNIPS custom-intent data (CC0 1.0) into a folder, every file checked by sha256.

The files come from the folder named in SPACY_ATTENTION_DATA when that is set, else from the public repository
sonos/nlu-benchmark at one commit. A file that is already there and right is left alone.
"""

import argparse
import hashlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tqdm import tqdm

COMMIT = "b86ac7f1577868c42158d0dec77db50956046696"
URL = f"https://raw.githubusercontent.com/sonos/nlu-benchmark/{COMMIT}"
FOLDER = "2017-06-custom-intent-engines"
TIMEOUT_SECONDS = 60
SHA256 = {
    "LICENSE": "36ffd9dc085d529a7e60e1276d73ae5a030b020313e6c5408593a6ae2af39673",
    "train_AddToPlaylist_full.json": "fee1b4645352e70ed8a40f1f87c3b53fc3bf75f8ebc82252a22b82c107e75b01",
    "validate_AddToPlaylist.json": "14cc9ee49ae477b1452632a6e835498cf4c32da397b16967c82abb3e50403e83",
    "train_BookRestaurant_full.json": "7677e82cd6e9a8191f0a4502568c786278c984900b4796d3628e46f1abf73ef4",
    "validate_BookRestaurant.json": "4f7258ccc768b777b2eb8916532db9aa50dbd058ddf1ffb0dc59218963e7442a",
    "train_GetWeather_full.json": "86f414b2ad8a993134d85d16e25e5d337beae47cef993c0af2a5f440405c60f6",
    "validate_GetWeather.json": "60c095e193655d6ca92be220fed3926ca25e18cd70c85664145efe25d80993af",
    "train_PlayMusic_full.json": "901ddbe9781d1fdb8196e789c543f80df3d29ca6e237da64947905adcc0312e4",
    "validate_PlayMusic.json": "922212775e26259d5bffeaf79b6048d070ca017d229df00b2cc9800f71c75d20",
    "train_RateBook_full.json": "bb43e4b74134300d5766f6b420d0357a63402987a225f6dc92c806c9c040ce04",
    "validate_RateBook.json": "c1f8b4114da0bb5e8afd78a8062766e18b2eabb0e717539598db01b09d04619b",
    "train_SearchCreativeWork_full.json": "87b3432de48c71c205aa5238b41d9e3f2d70bdfcd0bea2427544fb9e4bd5e5bb",
    "validate_SearchCreativeWork.json": "8a5e830eddb185d3e4a9d27ded140a145d04766bdce0e58834676ede32d13e77",
    "train_SearchScreeningEvent_full.json": "5447e9440c02e2fb08c3ae16b9f58a4d1332b4bc77fd34691402b02aa4399765",
    "validate_SearchScreeningEvent.json": "81e1445713e03c7c3e615353c5f3fee05f369fe9834100b9b9735900a96b9498",
}


def main() -> int:
    """Fetch what the command line asks for.

    RETURNS (int): Exit status, 1 when a file is missing or wrong.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("assets/snips"))
    output = parser.parse_args().output
    corpora = os.environ.get("SPACY_ATTENTION_DATA")
    try:
        fetch(output, Path(corpora) / "snips" if corpora else None)
    except (OSError, ValueError) as err:
        print(f"Cannot fetch SNIPS: {err}", file=sys.stderr)
        return 1
    print(f"{len(SHA256)} files in {output}, checksums right")
    return 0


def fetch(output: Path, source: Path | None) -> None:
    """Copy or download every file, check it, and put it in place whole.

    output (Path): The folder to fill.
    source (Path | None): A local copy of the repository; None to download.
    RAISES (ValueError): A checksum differs; that file is not put in place, files from before stay.
    RAISES (OSError): A file is missing at the source, or the download failed.
    """
    output.mkdir(parents=True, exist_ok=True)
    for name, expected in tqdm(SHA256.items(), desc="SNIPS", unit="file"):
        target = output / name
        if target.exists() and sha256(target.read_bytes()) == expected:
            continue
        content = read_source(name, source)
        check(name, content, expected, source)
        part = target.with_suffix(".part")
        part.write_bytes(content)
        part.replace(target)


def read_source(name: str, source: Path | None) -> bytes:
    """Read one file of the data set.

    name (str): A key of `SHA256`.
    source (Path | None): A local copy of the repository; None to download.
    RETURNS (bytes): Its content.
    RAISES (OSError): It is not there, or the download failed.
    """
    if source is not None:
        return (source / location(name)).read_bytes()
    url = f"{URL}/{location(name)}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            return response.read()
    except urllib.error.URLError as err:
        advice = "set SPACY_ATTENTION_DATA to a folder with snips/ in it, or try again with a network"
        raise OSError(f"{url}: {err}; {advice}") from err


def location(name: str) -> str:
    """Say where a file lies in the repository.

    name (str): A key of `SHA256`, for example `validate_GetWeather.json`.
    RETURNS (str): Its path there, with slashes.
    """
    if name == "LICENSE":
        return name
    intent = name.removesuffix(".json").split("_")[1]
    return f"{FOLDER}/{intent}/{name}"


def check(name: str, content: bytes, expected: str, source: Path | None) -> None:
    """Compare a file's checksum with the recorded one.

    name (str): The file, for the message.
    content (bytes): What was read.
    expected (str): 64 hexadecimal digits.
    source (Path | None): Where it was read from.
    RAISES (ValueError): They differ.
    """
    found = sha256(content)
    if found != expected:
        where = source or URL
        raise ValueError(
            f"{name} from {where} has sha256 {found}, expected {expected}. The source was changed or "
            "damaged; nothing was overwritten. Fetch from another copy, or compare with the repository."
        )


def sha256(content: bytes) -> str:
    """Compute a checksum.

    content (bytes): A file's content.
    RETURNS (str): 64 hexadecimal digits.
    """
    return hashlib.sha256(content).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
