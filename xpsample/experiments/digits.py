"""Digits for experiments on images: MNIST in [-1, 1], and a classifier by nearest neighbors."""

from typing import NamedTuple

import numpy as np

from xpsample.experiments.data import load_dataset

CLASSES = 10
_ROWS = 1000


class Digits(NamedTuple):
    """Images (rows, 784), float32 with the background -1 and ink 1, and labels (rows,)."""

    images: np.ndarray
    labels: np.ndarray


class Classified(NamedTuple):
    """The class of every image, its votes (..., 10) as shares, and the distance to the nearest training image."""

    labels: np.ndarray
    votes: np.ndarray
    distance: np.ndarray


def load_digits() -> tuple[Digits, Digits]:
    """10,000 training and 2,000 test images of the data set ``mnist_small``; DataError if they are not there."""
    data = load_dataset("mnist_small")

    def part(name: str) -> Digits:
        images = data[f"{name}_images"]
        scaled = images.reshape(len(images), -1).astype(np.float32) * np.float32(2 / 255) - np.float32(1)
        return Digits(scaled, data[f"{name}_labels"].astype(np.int64))

    return part("train"), part("test")


def classify(x: np.ndarray, known: Digits, neighbors: int = 5) -> Classified:
    """Classify images (..., 784), background -1 and ink 1, by a vote of their nearest neighbors in Euclidean distance.

    Among the images `known` so many vote; of classes with equal votes the smallest digit wins.
    """
    flat = np.reshape(x, (-1, x.shape[-1])).astype(np.float32, copy=False)
    squares = np.sum(known.images**2, axis=-1)
    votes, distances = [], []
    for rows in np.array_split(flat, -(-len(flat) // _ROWS)):
        squared = squares - 2 * rows @ known.images.T  # but for |x|^2
        nearest = np.argpartition(squared, neighbors, axis=-1)[:, :neighbors]
        votes.append(np.mean(known.labels[nearest][..., None] == np.arange(CLASSES), axis=1))
        distances.append(np.sqrt(np.maximum(np.min(squared, axis=-1) + np.sum(rows**2, axis=-1), 0)))
    shares = np.concatenate(votes).reshape(*x.shape[:-1], CLASSES)
    return Classified(np.argmax(shares, axis=-1), shares, np.concatenate(distances).reshape(x.shape[:-1]))
