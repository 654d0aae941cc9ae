"""Nothing secret is shown or logged."""

import pytest

from peewit.service.redaction import redacted, shown_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/edges", "s3://bucket/edges"),
        ("abfs://container@account/edges", "abfs://container@account/edges"),
        ("sftp://me:hunter2@host/edges/*.parquet", "sftp://me:***@host/edges/*.parquet"),
        ("https://host/a.parquet?X-Amz-Signature=ab&x=1", "https://host/a.parquet?X-Amz-Signature=***&x=***"),
        ("https://me:p@host/a.parquet", "https://me:***@host/a.parquet"),
        ("zip://a.parquet::https://host/z?code=12", "zip://a.parquet::https://host/z?code=***"),
        ("az://c/edges?sig=abc", "az://c/edges?sig=***"),
        ("/data/edges?.parquet", "/data/edges?.parquet"),
    ],
)  # fmt: skip
def test_urls_are_shown_without_secrets(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "text",
    [
        "GET https://me:hidden@host/a failed",
        "aws_secret_access_key='hidden' was refused",
        '{"token": "hidden"}',
        "Cannot connect to http://h/a?X-Amz-Credential=hidden&X-Amz-Signature=hidden",
        "account_key=hidden",
        "password: hidden",
    ],
)
def test_messages_are_shown_without_secrets(text: str) -> None:
    assert "hidden" not in redacted(text)


def test_other_messages_stay_as_they_are() -> None:
    text = "An error occurred (403) when calling the ListObjectsV2 operation: Forbidden, key a/b=c"
    assert redacted(text) == text
