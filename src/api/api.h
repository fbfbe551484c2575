/*
 * api.h
 *
 * What the api's C files offer each other and the store: who asks, what they may do, how names are written.
 *
 * All of it reads tables, so it runs inside a SECURITY DEFINER function of the extension whose search_path is pinned.
 */
#ifndef RPQ_API_H
#define RPQ_API_H

/* Who asks.  Strings and the struct live in the memory context of the caller of rpq_caller(). */
typedef struct Caller
{
	const char *db_role;		/* the role in force outside any SECURITY DEFINER function */
	bool		known;			/* platform admin or account; false: see error, no right at all */
	bool		platform_admin; /* false for a platform admin that acts for an account */
	int64		account_id;		/* 0: a platform admin without an account */
	int64		tenant_id;		/* 0 likewise */
	const char *account;		/* NULL likewise */
	bool		org_admin;
	bool		gateway;
	bool		executor;
	bool		driver;
	const char *gateway_account;	/* the gateway's name when it acts for account */
	const char *actor;			/* the account whose rights are used, or the role */
	const char *on_behalf_of;	/* the account, when somebody acts for it */

	/* why the caller is not known */
	int			sqlstate;
	const char *error;
	const char *hint;
} Caller;

typedef enum ObjectKind
{
	KIND_NONE,
	KIND_TENANT,
	KIND_CLUSTER,
	KIND_INSTANCE_TYPE,
	KIND_ACCOUNT,
	KIND_USER_GROUP,
	KIND_PROJECT_GROUP,
	KIND_WORKLOAD_TYPE,
	KIND_POOL,
	KIND_NODE,
	KIND_WORKLOAD,
	KIND_POD,
	KIND_OPERATION,
	KIND_QUEUE,
	KIND_POLICY,
	KIND_PROFILE
} ObjectKind;
#define NKINDS (KIND_PROFILE + 1)

/* An object, and what the caller is to it beside platform and organisation admin. */
typedef struct Object
{
	int64		id;
	int64		tenant_id;		/* 0: has no tenant */
	bool		pool_admin;
	bool		owner;
	bool		seen;			/* may be seen by one who is nothing of the above */
} Object;

/* caller.c */
extern const Caller *rpq_caller(void);	/* never raises */
extern const Caller *rpq_known_caller(void);	/* 42501 when not known */
extern bool rpq_role_is_platform_admin(Oid role);
extern bool rpq_is_fenced(void);
extern void rpq_check_fence(void);	/* RQ009 when fenced */
extern void rpq_write_fence(void);	/* the row, when there is none */

/* names.c */
extern char *rpq_normal_name(const char *name, const char **problem);
extern char *rpq_check_name(const char *what, const char *name);
extern char *rpq_split_name(const char *what, const char *name, char **tenant);

/* objects.c */
extern const char *rpq_kind_word(ObjectKind kind);
extern int64 rpq_tenant_of(const Caller *caller, const char *name);
extern bool rpq_object_by_name(const Caller *caller, ObjectKind kind, const char *name, Object *object);
extern bool rpq_object_by_id(const Caller *caller, ObjectKind kind, int64 id, Object *object);
extern bool rpq_sees(const Caller *caller, const Object *object);
extern void rpq_no_such_name(ObjectKind kind, const char *name) pg_attribute_noreturn();
extern void rpq_no_such_id(ObjectKind kind, int64 id) pg_attribute_noreturn();

/* rights.c */
extern int64 rpq_authorize(const char *action, const char *object); /* object NULL: not given */
extern int64 rpq_authorize_id(const char *action, int64 id);

#endif							/* RPQ_API_H */
