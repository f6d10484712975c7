/** One trial of a tool, prompt or resource from the first request to its last answer, questions included. */

import { ApiError } from "./api";
import { type Answer, type InputRequest, type LogNote, needsInput, type Progress, request } from "./mcp";
import type { Json, JsonObject } from "./types";

export type Phase =
  | { name: "idle" }
  | { name: "running"; since: number; progress: Progress | null }
  | { name: "asking"; asked: Record<string, InputRequest>; round: number }
  | { name: "done"; result: JsonObject; tookMs: number }
  | { name: "failed"; fault: ApiError | Error; tookMs: number }
  | { name: "cancelled" };

export interface Trial {
  server: string;
  method: string;
  params: JsonObject;
  headers: Record<string, string>;
}

/** A server that asks for ever is stopped by the page. */
const MOST_ROUNDS = 20;

/** Runs a trial and tells each change of its phase. */
export class Runner {
  private abort: AbortController | null = null;
  private answerQuestions: ((answers: JsonObject | null) => void) | null = null;

  constructor(private readonly tell: (phase: Phase) => void, private readonly note: (note: LogNote) => void) {}

  async run(trial: Trial): Promise<void> {
    this.cancel();
    const abort = new AbortController();
    this.abort = abort;
    const began = performance.now();
    const took = () => performance.now() - began;
    try {
      const result = await this.rounds(trial, abort);
      if (abort.signal.aborted) return;
      this.tell(result === null ? { name: "cancelled" } : { name: "done", result, tookMs: took() });
    } catch (error) {
      if (abort.signal.aborted) return;
      this.tell({ name: "failed", fault: error as Error, tookMs: took() });
    }
  }

  /** Stops waiting. Closing the stream is how the gateway, and through it the server, hears of it. */
  cancel(): void {
    if (this.abort === null) return;
    this.abort.abort();
    this.abort = null;
    this.answerQuestions = null;
    this.tell({ name: "cancelled" });
  }

  /** Gives the answers to what the server asked; null ends the trial. */
  answer(answers: JsonObject | null): void {
    const give = this.answerQuestions;
    this.answerQuestions = null;
    give?.(answers);
  }

  private async rounds(trial: Trial, abort: AbortController): Promise<JsonObject | null> {
    let params = trial.params;
    for (let round = 1; round <= MOST_ROUNDS; round += 1) {
      const answer = await this.once(trial, params, abort);
      if (!needsInput(answer)) return answer;
      const responses = await this.ask(answer.inputRequests ?? {}, round);
      if (responses === null) return null;
      // Exactly the original parameters again, and the state as it was given (2026-07-28, Multi Round-Trip Requests).
      params = { ...trial.params, ...(answer.inputRequests ? { inputResponses: responses } : {}) };
      if (answer.requestState !== undefined) params.requestState = answer.requestState;
    }
    throw new ApiError(0, "TOO_MANY_QUESTIONS", "the server asked too often", null);
  }

  private once(trial: Trial, params: JsonObject, abort: AbortController): Promise<Answer> {
    const since = Date.now();
    this.tell({ name: "running", since, progress: null });
    return request(trial.server, trial.method, params, {
      signal: abort.signal,
      headers: trial.headers,
      canAnswer: true,
      onProgress: (progress) => this.tell({ name: "running", since, progress }),
      onLog: (note) => this.note(note),
    });
  }

  private ask(asked: Record<string, InputRequest>, round: number): Promise<JsonObject | null> {
    if (Object.keys(asked).length === 0) return Promise.resolve({});
    return new Promise((resolve) => {
      this.answerQuestions = resolve;
      this.tell({ name: "asking", asked, round });
    });
  }
}

/** A prompt's arguments as a schema, so that one form serves both. */
export function promptSchema(args: { name: string; title?: string; description?: string; required?: boolean }[]): { type: string; properties: Record<string, Json>; required: string[] } {
  const properties: Record<string, Json> = {};
  for (const one of args) properties[one.name] = { type: "string", ...(one.title ? { title: one.title } : {}), ...(one.description ? { description: one.description } : {}) };
  return { type: "object", properties, required: args.filter((one) => one.required).map((one) => one.name) };
}
