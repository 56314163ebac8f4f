"""Making a blob is a function of a job: other processes make the same bytes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest

from importer.engine.make import MakeJob, make_blob
from importer.pipeline import plan_import
from importer.recipes.options import parse_options
from importer.request import ImportRequest
from store import ModelName, Store
from tests.importer.builders import REPOSITORY, create

MODELS = REPOSITORY / "fixtures" / "models"


class Processes:
    """An executor whose jobs run in other processes, as those of a cluster would."""

    def run(self, jobs, work):
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(2, mp_context=spawn) as pool:
            waiting = list(jobs)
            yield from zip(waiting, pool.map(work, waiting), strict=True)


@pytest.mark.parametrize("model", ["tiny-moe", "tiny-pipeline"])
def test_processes_make_what_threads_make(tmp_path, model):
    with Store(tmp_path / "store") as store:
        recipe = parse_options("int4")
        create(store, MODELS / model, recipe=recipe)
        made = store.catalog.get(ModelName.parse("m")).parse().layers
        request = ImportRequest(ModelName.parse("m"), MODELS / model, recipe)
        plan = plan_import(request, store)
    jobs = []
    for number, job in enumerate(plan.jobs):
        path = tmp_path / str(number)
        path.touch()
        jobs.append(MakeJob(number, job, path, seed=7))

    found = {job.number: one.ref for job, one in Processes().run(jobs, make_blob)}

    assert [found[number].digest for number in range(len(jobs))] == [
        layer.digest for layer in made
    ]
