import { GridmeterError } from "../errors.ts";
import { awsRemedy, failureText } from "../store/aws-error.ts";

/** The error for a failed request to a queue. `left` says what became of the messages. */
export function sqsError(
  thrown: unknown,
  doing: string,
  right: string,
  queueUrl: string,
  left: string,
): GridmeterError {
  if (thrown instanceof GridmeterError) return thrown;
  const text = `Cannot ${doing} the queue ${queueUrl}: ${failureText(thrown)}. ${left} ${awsRemedy(thrown, `${right} on that queue`)}`;
  return new GridmeterError("queue_failed", text, { cause: thrown });
}
