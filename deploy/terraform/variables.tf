variable "application" {
  description = "The application of the settings. It names the tables and the roles."
  type        = string
  default     = "orders"
}

variable "trusted" {
  description = "Who may take each role: role -> the document of its trust policy, such as that of a service account of EKS. Roles without one aren't made."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.trusted), ["leader", "worker", "spark", "upkeep", "reader"])) == 0
    error_message = "The roles are leader, worker, spark, upkeep and reader."
  }
}

variable "alarm_topic" {
  description = "The ARN of the SNS topic that is told when DynamoDB refuses requests; null: no alarm. The alarms of Headrace's own metrics are in deploy/cloudwatch."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
