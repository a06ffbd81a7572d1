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
    condition     = length(setsubtract(keys(var.trusted), ["leader", "worker", "spark", "upkeep", "reader", "migrate"])) == 0
    error_message = "The roles are leader, worker, spark, upkeep, reader and migrate."
  }
}

variable "alarm_topic" {
  description = "The ARN of the SNS topic that alarms tell; null: no alarm. Without metrics_stream the only alarms are those of requests that DynamoDB refuses."
  type        = string
  default     = null
}

variable "metrics_stream" {
  description = "The name of the stream of which Headrace's own metrics tell (metrics.to: cloudwatch in the settings); null: no alarm on these metrics."
  type        = string
  default     = null
}

variable "alarm_parameters" {
  description = "Other parameters of deploy/cloudwatch/alarms.json than its defaults, such as Worker and MostLagSeconds; Application, if metrics.namespace isn't the application's name."
  type        = map(string)
  default     = {}

  validation {
    condition     = length(setsubtract(keys(var.alarm_parameters), ["Application", "Worker", "MostLagSeconds", "MissingLag", "LeastRetentionSeconds", "MostSnapshots"])) == 0
    error_message = "The parameters are Application, Worker, MostLagSeconds, MissingLag, LeastRetentionSeconds and MostSnapshots. Stream and Topic are variables of their own."
  }
}

variable "tags" {
  description = "Tags of everything that is made."
  type        = map(string)
  default     = {}
}
