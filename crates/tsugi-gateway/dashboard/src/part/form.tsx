/** A form made from a JSON schema, with what is wrong said beside each field while typing. */

import { createContext, type RefObject } from "preact";
import { useContext, useEffect, useId, useRef, useState } from "preact/hooks";
import { t } from "../lib/i18n";
import { bestVariant, equal, fromText, initial, isObject, join, kindOf, options, type Problem, put, resolve, variantName, variants, withoutConstants, withoutNull } from "../lib/schema";
import type { Json, JsonObject, Schema } from "../lib/types";
import { Icon } from "./icon";

interface FormContext {
  root: Schema;
  problems: Map<string, Problem>;
  /** Paths that were touched; a field nobody has touched does not complain. */
  touched: Set<string>;
  showAll: boolean;
  touch: (path: string) => void;
  unread: Unread;
}

/** The fields whose text does not parse. The value is then older than what the screen shows, so nothing may be sent. */
export type Unread = RefObject<Set<string>>;

export function useUnread(): Unread {
  return useRef(new Set<string>());
}

/** How one field says whether its text parses, at once; a field that goes away stands in nobody's way. */
export function useParsing(unread: Unread): (isBroken: boolean) => void {
  const id = useId();
  useEffect(() => () => void unread.current?.delete(id), []);
  return (isBroken) => void (isBroken ? unread.current?.add(id) : unread.current?.delete(id));
}

const Context = createContext<FormContext | null>(null);

export interface FormProps {
  schema: Schema;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  problems: Problem[];
  showAll: boolean;
  unread: Unread;
}

export function SchemaForm({ schema, value, onChange, problems, showAll, unread }: FormProps) {
  const [touched, setTouched] = useState<Set<string>>(new Set());
  const byPath = new Map<string, Problem>();
  for (const problem of problems) if (!byPath.has(problem.path)) byPath.set(problem.path, problem);
  const touch = (path: string) => { if (!touched.has(path)) setTouched(new Set([...touched, path])); };
  const resolved = resolve(schema, schema);
  const isEmpty = kindOf(resolved, schema) === "any" || Object.keys(resolved.properties ?? {}).length === 0 && kindOf(resolved, schema) === "object";
  return (
    <Context.Provider value={{ root: schema, problems: byPath, touched, showAll, touch, unread }}>
      {isEmpty && resolved.additionalProperties === undefined ? <p class="note">{t("form.nothing")}</p> : <Control schema={resolved} value={value} onChange={onChange} path="" label="" isRequired={true} />}
    </Context.Provider>
  );
}

interface FieldProps {
  schema: Schema;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
  path: string;
  label: string;
  isRequired: boolean;
}

function useForm(): FormContext {
  return useContext(Context)!;
}

/** A labelled field: name, whether it must be there, what it is for, what is wrong. */
function Field(props: FieldProps & { onRemove?: () => void }) {
  const form = useForm();
  const id = useId();
  const kind = kindOf(props.schema, form.root);
  const isGroup = kind === "object" || kind === "map" || kind === "array" || kind === "choices" || kind === "union";
  const problem = form.problems.get(props.path);
  const isShown = problem !== undefined && (form.showAll || form.touched.has(props.path));
  const description = props.schema.description;
  const head = (
    <>
      <span class="field-name">{props.schema.title ?? props.label}</span>{" "}
      {props.schema.title !== undefined && props.label !== "" && props.schema.title !== props.label && <span class="field-key mono">{props.label}</span>}{" "}
      <span class="field-type">{props.isRequired ? t("form.must") : t("form.may")} · {typeWord(props.schema, kind)}</span>
    </>
  );
  const foot = (
    <>
      {description && <span class="field-help" id={`${id}-help`}>{description}</span>}
      {isShown && <span class="field-problem" id={`${id}-problem`}>{t(problem.key, problem.args)}</span>}
    </>
  );
  const described = [description ? `${id}-help` : "", isShown ? `${id}-problem` : ""].filter(Boolean).join(" ");
  const remove = props.onRemove && <button type="button" class="link remove" onClick={props.onRemove}>{t("form.remove")}<span class="hidden"> {props.label}</span></button>;
  if (isGroup) {
    return (
      <fieldset class={`field group ${isShown ? "wrong" : ""}`} aria-describedby={described || undefined}>
        <legend>{head}{remove}</legend>
        {foot}
        <Control {...props} />
      </fieldset>
    );
  }
  return (
    <div class={`field ${isShown ? "wrong" : ""}`}>
      <div class="field-head"><label for={id}>{head}</label>{remove}</div>
      <Control {...props} id={id} described={described} isWrong={isShown} />
      {foot}
    </div>
  );
}

function typeWord(schema: Schema, kind: string): string {
  if (kind === "choice" || kind === "choices") return t("form.type.choice");
  const type = Array.isArray(schema.type) ? schema.type.join(" | ") : schema.type;
  return [type ?? kind, schema.format].filter(Boolean).join(", ");
}

interface ControlProps extends FieldProps {
  id?: string;
  described?: string;
  isWrong?: boolean;
}

function Control(props: ControlProps) {
  const form = useForm();
  switch (kindOf(props.schema, form.root)) {
    case "object": return <ObjectControl {...props} />;
    case "map": return <MapControl {...props} />;
    case "array": return <ArrayControl {...props} />;
    case "choices": return <ChoicesControl {...props} />;
    case "choice": return <ChoiceControl {...props} />;
    case "boolean": return <BooleanControl {...props} />;
    case "union": return <UnionControl {...props} />;
    case "constant": return <output id={props.id} class="mono constant">{JSON.stringify(props.schema.const)}</output>;
    case "null": return <output id={props.id} class="mono constant">null</output>;
    case "any": return <JsonControl {...props} />;
    default: return <TextControl {...props} />;
  }
}

function aria(props: ControlProps) {
  return { id: props.id, "aria-describedby": props.described || undefined, "aria-invalid": props.isWrong || undefined, "aria-required": props.isRequired || undefined, "aria-label": props.id === undefined ? props.label || t("form.value") : undefined };
}

function TextControl(props: ControlProps) {
  const form = useForm();
  const kind = kindOf(props.schema, form.root);
  const text = props.value === undefined || props.value === null ? "" : String(props.value);
  const [typed, setTyped] = useState(text);
  // What a person types ("1.", "1e") need not be the canonical form of its value, so it is kept as typed.
  useEffect(() => { if (!equal(fromText(typed, kind), props.value)) setTyped(text); }, [text]);
  const change = (next: string) => {
    setTyped(next);
    form.touch(props.path);
    props.onChange(fromText(next, kind));
  };
  const example = props.schema.examples?.[0];
  const placeholder = example === undefined ? undefined : typeof example === "string" ? example : JSON.stringify(example);
  const common = { ...aria(props), value: typed, placeholder, onInput: (event: Event) => change((event.target as HTMLInputElement).value), onBlur: () => form.touch(props.path), autocomplete: "off", spellcheck: false };
  if (kind === "string" && isLong(props.schema, props.label, typed)) return <textarea {...common} rows={Math.min(12, Math.max(3, typed.split("\n").length))} />;
  const type = (kind === "string" ? { date: "date", email: "email", uri: "url" }[props.schema.format ?? ""] ?? "text" : "text") as "text";
  return <input {...common} type={type} inputMode={kind === "string" ? undefined : kind === "integer" ? "numeric" : "decimal"} class={kind === "string" ? "" : "number"} />;
}

function isLong(schema: Schema, name: string, typed: string): boolean {
  return (schema.maxLength ?? 0) > 200 || schema.contentMediaType !== undefined || typed.includes("\n") || /^(content|text|body|code|query|sql|prompt|markdown|html|source|script)$/i.test(name);
}

function BooleanControl(props: ControlProps) {
  const form = useForm();
  const change = (value: Json | undefined) => { form.touch(props.path); props.onChange(value); };
  if (props.isRequired || props.schema.default !== undefined) {
    return <span class="check"><input {...aria(props)} type="checkbox" checked={props.value === true} onChange={(event) => change(event.currentTarget.checked)} /><span aria-hidden="true">{props.value === true ? "true" : "false"}</span></span>;
  }
  return (
    <select {...aria(props)} value={props.value === undefined ? "" : String(props.value)} onChange={(event) => change(event.currentTarget.value === "" ? undefined : event.currentTarget.value === "true")}>
      <option value="">{t("form.unset")}</option>
      <option value="true">true</option>
      <option value="false">false</option>
    </select>
  );
}

function ChoiceControl(props: ControlProps) {
  const form = useForm();
  const all = options(props.schema) ?? [];
  const at = all.findIndex((option) => equal(option.value, props.value));
  return (
    <select {...aria(props)} value={String(at)} onBlur={() => form.touch(props.path)} onChange={(event) => { form.touch(props.path); props.onChange(all[Number(event.currentTarget.value)]?.value); }}>
      {(at < 0 || !props.isRequired) && <option value="-1">{props.isRequired ? t("form.choose") : t("form.unset")}</option>}
      {all.map((option, index) => <option key={index} value={String(index)}>{option.label}</option>)}
    </select>
  );
}

function ChoicesControl(props: ControlProps) {
  const form = useForm();
  const all = options(resolve(props.schema.items, form.root)) ?? [];
  const chosen = Array.isArray(props.value) ? props.value : [];
  const toggle = (value: Json, isOn: boolean) => {
    form.touch(props.path);
    const rest = chosen.filter((one) => !equal(one, value));
    const next = all.map((option) => option.value).filter((one) => (isOn && equal(one, value)) || rest.some((kept) => equal(kept, one)));
    props.onChange(next.length === 0 && !props.isRequired ? undefined : next);
  };
  return (
    <div class="choices">
      {all.map((option, at) => <label key={at} class="check"><input type="checkbox" checked={chosen.some((one) => equal(one, option.value))} onChange={(event) => toggle(option.value, event.currentTarget.checked)} />{option.label}</label>)}
    </div>
  );
}

function ObjectControl(props: ControlProps) {
  const form = useForm();
  const value = isObject(props.value) ? props.value : {};
  const required = props.schema.required ?? [];
  const entries = Object.entries(props.schema.properties ?? {});
  const shown = [...entries.filter(([name]) => required.includes(name)), ...entries.filter(([name]) => !required.includes(name))];
  const set = (name: string, next: Json | undefined) => {
    const changed: JsonObject = { ...value };
    if (next === undefined) delete changed[name];
    else put(changed, name, next);
    props.onChange(changed);
  };
  return (
    <div class="fields">
      {shown.map(([name, property]) => {
        const isRequired = required.includes(name);
        const whole = resolve(property, form.root);
        const schema = isRequired ? whole : withoutNull(whole, form.root);
        const held = Object.hasOwn(value, name) ? value[name] : undefined;
        const own = held === null && schema !== whole ? undefined : held;
        return <Optional key={name} schema={schema} value={own} onChange={(next) => set(name, next)} path={join(props.path, name)} label={name} isRequired={isRequired} />;
      })}
    </div>
  );
}

/** Groups that need not be there are added by hand, so that a form does not open a whole tree at once. */
function Optional(props: FieldProps) {
  const form = useForm();
  const kind = kindOf(props.schema, form.root);
  const isGroup = kind === "object" || kind === "array" || kind === "map" || kind === "union";
  if (!isGroup || props.isRequired) return <Field {...props} />;
  if (props.value === undefined) {
    return (
      <div class="field absent">
        <button type="button" class="quiet" onClick={() => props.onChange(initial({ ...props.schema, default: undefined } as Schema, form.root) ?? (kind === "array" ? [] : kind === "union" ? "" : {}))}><Icon name="plus" />{props.schema.title ?? props.label}</button>
        {props.schema.description && <span class="field-help">{props.schema.description}</span>}
      </div>
    );
  }
  return <Field {...props} onRemove={() => props.onChange(undefined)} />;
}

function ArrayControl(props: ControlProps) {
  const form = useForm();
  const items = Array.isArray(props.value) ? props.value : [];
  const most = props.schema.maxItems ?? 200;
  const schemaAt = (at: number) => resolve(props.schema.prefixItems?.[at] ?? props.schema.items, form.root);
  const set = (next: Json[]) => { form.touch(props.path); props.onChange(next); };
  const keys = useItemKeys(items.length);
  const remove = (at: number) => { keys.splice(at, 1); set(items.filter((_, other) => other !== at)); };
  const places = props.schema.prefixItems?.length ?? 0;
  return (
    <div class="items">
      {items.map((item, at) => (
        <Field key={`${keys[at]} ${Math.min(at, places)}`} schema={schemaAt(at)} value={item === null && kindOf(schemaAt(at), form.root) !== "null" ? undefined : item} onChange={(next) => set(items.map((one, other) => (other === at ? next ?? null : one)))} path={join(props.path, at)} label={String(at + 1)} isRequired={true} onRemove={() => remove(at)} />
      ))}
      <button type="button" class="quiet" disabled={items.length >= most} onClick={() => set([...items, initial(schemaAt(items.length), form.root) ?? ""])}><Icon name="plus" />{t("form.add")}<span class="hidden"> {props.label}</span></button>
    </div>
  );
}

/** A key for each item that stays with it, since fields keep what was typed: by place, a removal would show it in the next item. */
function useItemKeys(count: number): number[] {
  const keys = useRef<number[]>([]);
  const last = useRef(0);
  while (keys.current.length < count) keys.current.push(++last.current);
  keys.current.length = count;
  return keys.current;
}

function MapControl(props: ControlProps) {
  const form = useForm();
  const schema = resolve(props.schema.additionalProperties, form.root);
  const value = isObject(props.value) ? props.value : {};
  const [name, setName] = useState("");
  const id = useId();
  const add = () => {
    if (name === "" || Object.hasOwn(value, name)) return;
    const changed = { ...value };
    put(changed, name, initial(schema, form.root) ?? "");
    props.onChange(changed);
    setName("");
  };
  const change = (key: string, next: Json | undefined) => {
    const changed = { ...value };
    put(changed, key, next ?? "");
    props.onChange(changed);
  };
  const remove = (key: string) => {
    const { [key]: _gone, ...rest } = value;
    props.onChange(rest);
  };
  return (
    <div class="items">
      {Object.entries(value).map(([key, one]) => <Field key={key} schema={schema} value={one} onChange={(next) => change(key, next)} path={join(props.path, key)} label={key} isRequired={true} onRemove={() => remove(key)} />)}
      <div class="inline">
        <label class="hidden" for={id}>{t("form.key")}</label>
        <input id={id} value={name} placeholder={t("form.key")} onInput={(event) => setName(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === "Enter") { event.preventDefault(); add(); } }} />
        <button type="button" class="quiet" onClick={add}><Icon name="plus" />{t("form.add")}</button>
      </div>
    </div>
  );
}

function UnionControl(props: ControlProps) {
  const form = useForm();
  const all = variants(props.schema, form.root);
  const [chosen, setChosen] = useState(() => bestVariant(props.schema, props.value, form.root));
  const id = useId();
  const at = Math.min(chosen, all.length - 1);
  const variant = all[at] ?? {};
  const choose = (next: number) => {
    setChosen(next);
    props.onChange(initial(all[next], form.root));
  };
  return (
    <div class="union">
      <div class="inline">
        <label for={id}>{t("form.variant")}</label>
        <select id={id} value={String(at)} onChange={(event) => choose(Number(event.currentTarget.value))}>
          {all.map((one, index) => <option key={index} value={String(index)}>{variantName(one, index)}</option>)}
        </select>
      </div>
      {variant.description && <span class="field-help">{variant.description}</span>}
      <Control key={at} {...props} schema={withoutConstants(variant)} id={undefined} />
    </div>
  );
}

/** Anything at all, written as JSON. */
function JsonControl(props: ControlProps) {
  const form = useForm();
  const [text, setText] = useState(props.value === undefined ? "" : JSON.stringify(props.value, null, 2));
  const [isBroken, setBroken] = useState(false);
  const tellParsing = useParsing(form.unread);
  const tell = (broken: boolean) => { setBroken(broken); tellParsing(broken); };
  const change = (next: string) => {
    setText(next);
    form.touch(props.path);
    try {
      const value = next.trim() === "" ? undefined : (JSON.parse(next) as Json);
      tell(false);
      props.onChange(value);
    } catch {
      tell(true);
    }
  };
  return (
    <>
      <textarea {...aria(props)} aria-invalid={isBroken || props.isWrong || undefined} class="mono" rows={3} value={text} placeholder="{ }" spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      {isBroken && <span class="field-problem">{t("form.json")}</span>}
    </>
  );
}
