"""What a deployment costs: counted units, a dated price list, and the page made of both, ``docs/costs.md``.

``python -m infra.costs`` writes the page, ``--check`` tells whether it is stale, and with ``--memories`` and
``--retrievals`` it prints the bill of another case.
"""
