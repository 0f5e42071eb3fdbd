"""Bytes and SHA-256 digest of every file that is downloaded, at the commits that `xpsample.zoo.data` names."""

from collections.abc import Mapping
from typing import NamedTuple


class SourceFile(NamedTuple):
    """Length in bytes, and SHA-256 digest."""

    size: int
    digest: str


_GYM = "spinoffs/inference_gym/inference_gym"

SOURCE_FILES: Mapping[str, Mapping[str, SourceFile]] = {
    "blogfeedback": {
        "data/BlogFeedback.zip": SourceFile(
            2_583_605, "1ba74e5ad920f7cd037502b2968581cc695146a226a73eff52fe8ad875ed4bcf"
        ),
    },
    "cifar10_1000": {
        "demo/cifar10/cifar10_batch_0.png": SourceFile(
            2_318_456, "0614720d69293a033786d5fe2924c4e9a9b48874f19ca4627c4662a864ee9f2d"
        ),
        "demo/cifar10/cifar10_batch_1.png": SourceFile(
            2_326_379, "2927e26ea68602e34a7424826b76b7336ce36b8f6bcc2e9fce0c05568ff6b4c1"
        ),
        "demo/cifar10/cifar10_labels.js": SourceFile(
            153_012, "f8e4cced3cb4ac08bc842380ad30f904622d1faea630a0c7e1a18bf29e39d845"
        ),
    },
    "compas": {
        "compas-scores-two-years.csv": SourceFile(
            2_546_489, "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d"
        ),
    },
    "hiv1_1625": {
        "BinaryBNN/data/1625.txt": SourceFile(
            19_125, "c7b962810e927bf4874d596bfccbdaa89c9fb199cb9a00f844cb75a8a442b8ea"
        ),
    },
    "mnist_small": {
        "demo/mnist/mnist_labels.js": SourceFile(
            210_013, "3eee17486149b3bd25c3fd4fdf3e767fcc4b374ad17130b504fc3b1a96286b23"
        ),
        "demo/mnist/mnist_batch_0.png": SourceFile(
            495_297, "54d39dfaf0057158346bcabe733a4a93a8a02595adf2496abe8123c7eed85457"
        ),
        "demo/mnist/mnist_batch_1.png": SourceFile(
            498_109, "de5ff3ee0fb8052d80c8124a61dbd9896a10cec11237ceae61cd4d8053288bb0"
        ),
        "demo/mnist/mnist_batch_2.png": SourceFile(
            491_559, "14578a89cd497e00403c345c7b6523995f84f7a30561de28b238483364f6c1cd"
        ),
        "demo/mnist/mnist_batch_3.png": SourceFile(
            491_048, "2d6161d591840118584158b98df72203b16373a92602a1597d837333181de55b"
        ),
        "demo/mnist/mnist_batch_20.png": SourceFile(
            482_842, "169e1c88c3eeb0393d97294805f9f271ab7c3cf49301fc5168c3129c900c1cd9"
        ),
    },
    "targets/brownian_motion": {
        f"{_GYM}/internal/datasets/brownian_motion_missing_middle_observations.py": SourceFile(
            2098, "81f42c0e1be06ad684b166c82ca2d7ca5008affbec96117a0b3ca579a7726cb7"
        ),
    },
    "targets/german_credit": {
        "german.data-numeric": SourceFile(78_998, "7539a4491a656b3fe15668b984629fda3dde8c97ca40d7d67d2e4ed28a944c9d"),
    },
    "targets/item_response": {
        f"{_GYM}/internal/datasets/synthetic_item_response_theory.py": SourceFile(
            711_243, "006775f59ea3d0c09ae6a0c585cf64b237b6a3291f1be78f1bbe745f46e89ed1"
        ),
        f"{_GYM}/targets/ground_truth/synthetic_item_response_theory.py": SourceFile(
            39_578, "f1ae8ec237bf2c2296c16b1d7da5ffb15aac5e784231511a5c3f5fcd515604e0"
        ),
    },
    "targets/stochastic_volatility": {
        "sampler-evaluation/sampler_evaluation/models/data/SP500.npy": SourceFile(
            9836, "5e74ad92ffc303bbe8ee946c50ea6808c3bef642aef2f39cd9b807966366503a"
        ),
        "sampler-evaluation/sampler_evaluation/models/data/stoch_vol_moments.npy": SourceFile(
            38_992, "affffe1afebdaa20f5f945fd2135830502a4bee29c79a2fe41d321bc526df617"
        ),
    },
    "tsp_eil": {
        "data/eil51.tsp": SourceFile(579, "66c05ad077ffd64d5778e358bbd16be049f8c8ae880cbd24f034487331d1ccce"),
    },
    "uci_boston": {
        "UCI_Datasets/bostonHousing/data/data.txt": SourceFile(
            49_082, "baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a"
        ),
        "UCI_Datasets/bostonHousing/data/index_features.txt": SourceFile(
            29, "b762e997c89e06c8e2f54d015ae208226f3099cac114245641578f183da0450a"
        ),
        "UCI_Datasets/bostonHousing/data/index_target.txt": SourceFile(
            3, "1a252402972f6057fa53cc172b52b9ffca698e18311facd0f3b06ecaaef79e17"
        ),
    },
    "uci_concrete": {
        "UCI_Datasets/concrete/data/data.txt": SourceFile(
            57_858, "43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de"
        ),
        "UCI_Datasets/concrete/data/index_features.txt": SourceFile(
            16, "d59784813bbf8e9a47929bbd4195498a43979c690f9e799cfe2e14522217c48d"
        ),
        "UCI_Datasets/concrete/data/index_target.txt": SourceFile(
            2, "aa67a169b0bba217aa0aa88a65346920c84c42447c36ba5f7ea65f422c1fe5d8"
        ),
    },
    "uci_energy": {
        "UCI_Datasets/energy/data/data.txt": SourceFile(
            35_309, "7f8bf024cea437267d56be99b7af7bb3faebec8a7bccfbb20d06d52d9372a950"
        ),
        "UCI_Datasets/energy/data/index_features.txt": SourceFile(
            16, "d59784813bbf8e9a47929bbd4195498a43979c690f9e799cfe2e14522217c48d"
        ),
        "UCI_Datasets/energy/data/index_target.txt": SourceFile(
            2, "aa67a169b0bba217aa0aa88a65346920c84c42447c36ba5f7ea65f422c1fe5d8"
        ),
    },
    "uci_mushroom": {
        "bandits/data/mushroom.data": SourceFile(
            373_704, "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
        ),
    },
    "uci_naval": {
        "UCI_Datasets/naval-propulsion-plant/data/data.txt": SourceFile(
            3_448_926, "de0ea69da1efaab8b9655ffed828547d10dd68c1fb8c6e0163e6a988def393a6"
        ),
        "UCI_Datasets/naval-propulsion-plant/data/index_features.txt": SourceFile(
            38, "19db51381e85a36e256e116b63fa48901a4277fd8e681840ed0ff6d1cdd5c0e3"
        ),
        "UCI_Datasets/naval-propulsion-plant/data/index_target.txt": SourceFile(
            3, "e6c21e8d260fe71882debdb339d2402a2ca7648529bc2303f48649bce0380017"
        ),
    },
    "uci_wine_red": {
        "UCI_Datasets/wine-quality-red/data/data.txt": SourceFile(
            84_027, "3ba41eaf4ab562088cf47b5c9dca2b4de2a330c3ee38a7920b4527a09574d5c1"
        ),
        "UCI_Datasets/wine-quality-red/data/index_features.txt": SourceFile(
            23, "d3dcb66facaeee49137e7ce2c7b05a4a190876ba4bd1c6dcf48ef39fdb78e549"
        ),
        "UCI_Datasets/wine-quality-red/data/index_target.txt": SourceFile(
            3, "25d4f2a86deb5e2574bb3210b67bb24fcc4afb19f93a7b65a057daa874a9d18e"
        ),
    },
    "uci_wine_white": {
        "winequality-white.csv": SourceFile(
            264_255, "659d419fff887f225bf977d20520bb64a64cae203e460087f809721d4430ba27"
        ),
    },
    "uci_yacht": {
        "UCI_Datasets/yacht/data/data.txt": SourceFile(
            11_487, "00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1"
        ),
        "UCI_Datasets/yacht/data/index_features.txt": SourceFile(
            12, "9d6093db34ed3db1834973eb10698ddb099971d39ac0e4707485d5f5aa5b0595"
        ),
        "UCI_Datasets/yacht/data/index_target.txt": SourceFile(
            2, "06e9d52c1720fca412803e3b07c4b228ff113e303f4c7ab94665319d832bbfb7"
        ),
    },
}
"""By data set and path in its repository."""
