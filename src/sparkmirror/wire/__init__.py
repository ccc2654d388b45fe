# SPDX-License-Identifier: Apache-2.0
"""Raw record batches and the sockets that move them; knows no Spark and no property name."""
