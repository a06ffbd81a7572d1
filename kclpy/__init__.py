"""The interface of KCL's Python record processors (amazon_kclpy), for processors that Headrace runs without Java.

    from headrace.kclpy.v3 import processor        in the place of amazon_kclpy.v3
    from headrace.kclpy import kcl                 KCLProcess, Checkpointer, CheckpointError, and the class of version 1

All names of amazon_kclpy 2.x and 3.x that users' code imports are here, with the same arguments and attributes. A processor may also go on
saying `amazon_kclpy`: Headrace puts this package in its place where that one isn't installed (`headrace.kclpy.alias`).
"""
