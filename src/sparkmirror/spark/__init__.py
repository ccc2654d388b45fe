# SPDX-License-Identifier: Apache-2.0
"""Driver side of the pipeline: SparkContext, epochs, splits, and the control channel."""
