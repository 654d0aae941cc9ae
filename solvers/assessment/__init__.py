"""What judges models and answers: left-out labels, thresholds, agreement, reasons and warnings."""
