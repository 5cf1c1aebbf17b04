"""What runs beside a submission, in a sandbox, and knows no answer: nothing it says is believed."""
