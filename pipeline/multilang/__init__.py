"""The .properties file of KCL's MultiLangDaemon, translated into Headrace's settings."""
