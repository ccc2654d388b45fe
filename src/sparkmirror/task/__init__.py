# SPDX-License-Identifier: Apache-2.0
"""Executor side of the pipeline: what a Spark task runs. Imports no pyspark."""
