# SPDX-License-Identifier: Apache-2.0
"""The control plane: admin calls and small topics, on kafka-python."""
