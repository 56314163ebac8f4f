"""A cluster inside of this process: two workers of two threads each, for all tests here."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(scope="session")
def cluster():
    from distributed import LocalCluster

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with LocalCluster(
            n_workers=2, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster:
            yield cluster


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address
