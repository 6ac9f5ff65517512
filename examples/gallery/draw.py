"""Draw the pictures of the gallery: ``python examples/gallery/draw.py [FOLDER] [NAME …]``."""

import importlib
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
NAMES = ("boundary", "tuning", "imbalanced", "probabilities", "text", "regression", "outliers",
         "convergence")  # fmt: skip


def main() -> None:
    folder, names = sys.argv[1:2] or ["docs/gallery"], sys.argv[2:] or NAMES
    sys.path.insert(0, str(HERE))
    for name in names:
        figure = importlib.import_module(name).main()
        figure.savefig(Path(folder[0]) / f"{name}.png", dpi=100)
        print(f"{folder[0]}/{name}.png", flush=True)


if __name__ == "__main__":
    main()
