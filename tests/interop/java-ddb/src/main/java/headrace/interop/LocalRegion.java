package headrace.interop;

import software.amazon.awssdk.core.SdkRequest;
import software.amazon.awssdk.core.SdkResponse;
import software.amazon.awssdk.core.interceptor.Context;
import software.amazon.awssdk.core.interceptor.ExecutionAttributes;
import software.amazon.awssdk.core.interceptor.ExecutionInterceptor;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.model.DescribeStreamRequest;
import software.amazon.awssdk.services.dynamodb.model.DescribeStreamResponse;
import software.amazon.awssdk.services.dynamodb.model.GetShardIteratorRequest;

/**
 * Streams of DynamoDB Local have the region ddblocal in their ARNs, and the adapter takes no region that AWS hasn't: it sees
 * another one, and DynamoDB Local its own.
 */
final class LocalRegion implements ExecutionInterceptor {
    private static final String LOCAL = ":ddblocal:";
    private final Region region;

    LocalRegion(Region region) {
        this.region = region;
    }

    static String toKnown(String arn, Region region) {
        return arn.replace(LOCAL, ":" + region.id() + ":");
    }

    @Override
    public SdkRequest modifyRequest(Context.ModifyRequest context, ExecutionAttributes attributes) {
        if (context.request() instanceof DescribeStreamRequest request) {
            return request.toBuilder().streamArn(toLocal(request.streamArn())).build();
        }
        if (context.request() instanceof GetShardIteratorRequest request) {
            return request.toBuilder().streamArn(toLocal(request.streamArn())).build();
        }
        return context.request();
    }

    @Override
    public SdkResponse modifyResponse(Context.ModifyResponse context, ExecutionAttributes attributes) {
        if (context.response() instanceof DescribeStreamResponse answer) {
            String arn = toKnown(answer.streamDescription().streamArn(), region);
            return answer.toBuilder()
                    .streamDescription(answer.streamDescription().toBuilder().streamArn(arn).build())
                    .build();
        }
        return context.response();
    }

    private String toLocal(String arn) {
        return arn.replace(":" + region.id() + ":", LOCAL);
    }
}
