"""Threads of the BLAS beside busy processes."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from peewit.service.worker.blas_threads import BlasThreads, threads_beside


@pytest.mark.parametrize(
    ("n_taken", "n_most", "expected"),
    [(0.0, 4, 4), (0.0, 2, 2), (0.3, 4, 4), (1.0, 4, 3), (3.4, 4, 1), (4.0, 4, 1), (50.0, 4, 1)],
)
def test_threads_are_as_many_as_free_processors(n_taken: float, n_most: int, expected: int) -> None:
    assert threads_beside(n_taken, n_most, n_processors=4) == expected


@pytest.mark.usefixtures("processes")
def test_beside_busy_processes_there_is_one_thread() -> None:
    n_busy = 4 * (os.cpu_count() or 1)
    loop = "print(flush=True)\nwhile True: pass"
    assert (np.ones((2, 2)) @ np.ones(2) == 2.0).all()  # which loads a BLAS
    with threadpool_limits():  # puts back what it finds
        blas = BlasThreads(2)
        assert blas.n_threads == 2
        assert _numbers_of_threads() == {2}
        busy = [
            subprocess.Popen([sys.executable, "-c", loop], stdout=subprocess.PIPE)
            for _ in range(n_busy)
        ]
        try:
            for process in busy:
                assert process.stdout is not None
                process.stdout.readline()
            blas.begin()  # what was before they ran counts too
            time.sleep(1.0)
            blas.adjust()
            assert blas.n_threads == 1
            assert _numbers_of_threads() == {1}
        finally:
            for process in busy:
                process.kill()
                process.communicate()


def _numbers_of_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}
