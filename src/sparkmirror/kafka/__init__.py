# SPDX-License-Identifier: Apache-2.0
"""The control plane: admin requests and small topics, on the connections of `wire`."""
