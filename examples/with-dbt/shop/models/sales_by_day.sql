{{ config(materialized='incremental', unique_key='day', incremental_strategy='delete+insert') }}

select
    cast(arrival_ts at time zone 'UTC' as date) as day,
    count(*) as sales,
    cast(sum(cast(json_extract(decode(data), '$.amount') as bigint)) as bigint) as amount
from {{ source('lake', 'orders') }}
group by 1
