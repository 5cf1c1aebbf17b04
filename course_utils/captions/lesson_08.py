CAPTIONS = {
    "gelu and relu": (
        "GELU bends softly, ReLU has a corner at 0",
        "Line chart from -4 to 4. Both are nearly 0 far to the left and x far to the right. GELU "
        "passes through 0, dips to -0.17 near -0.75, and has no corner.",
    ),
    "gradient over depth": (
        "Plain stacks lose the gradient; with residuals, depth makes no difference",
        "Line chart of 1 to 48 blocks, the gradient on a logarithmic axis. Plain falls from 0.2 "
        "to less than 1e-60. Post-LN and Pre-LN lie on each other, between 0.4 and 1.1.",
    ),
    "residual stream": (
        "Two tokens, two streams: attention is the only way across",
        "",
    ),
    "owners": (
        "Two thirds of a block belong to its feed-forward network",
        "Bars of parameters. Attention: query, key and value 589,824 each, out_proj 590,592. "
        "Feed-forward: expand 2,362,368, contract 2,360,064. Norms: 1,536 each, too few to see.",
    ),
}
