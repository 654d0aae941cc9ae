"""Records of labels, as they go over the wire."""

from peewit.service.wire.records import described, record

Label = int | str | float


@record
class LabelReceipt:
    """What became of labels."""

    labels_seq: int = described("Number of the graph's last label event, with these.")
    accepted: int
