"""The rights that each part of Headrace needs from AWS, as policies of IAM for the application that the settings describe.

places     the ARNs of the application's streams, tables, catalog and folders
rights     a statement of a policy, and the statements that several roles share
roles      the six roles, and the statements of each
policy     the statements of one or more roles as one document
"""
